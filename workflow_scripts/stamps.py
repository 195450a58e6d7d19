"""Dates of files, which Snakemake compares: after a clock was set back, nothing may be dated ahead of it.

Snakemake ends a job whose outputs are older than its inputs with an error, after all that it measured.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


def none_ahead(files: Iterable[Path], say: Callable[[str], None]) -> None:
    """Date all of a results tree now that is dated later, where one of the files (results/<tree>/...) is."""
    now = time.time_ns()
    for tree in {Path(*file.parts[:2]) for file in files if file.stat().st_mtime_ns > now}:
        ahead = sum(_dated(one, now) for one in tree.rglob("*"))
        say(f"the clock was set back: {ahead} files of {tree} were dated ahead of it, and are of now")


def _dated(file: Path, now: int) -> bool:
    """Whether a file was ahead; one that another job takes away meanwhile was not."""
    with suppress(FileNotFoundError):
        if file.is_file() and file.stat().st_mtime_ns > now:
            os.utime(file, ns=(now, now))
            return True
    return False
