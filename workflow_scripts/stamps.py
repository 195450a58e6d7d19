"""Dates of files, compared by Snakemake: after a clock was set back, none may be ahead of it.

Snakemake fails a job with outputs older than its inputs, after all its measuring.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


def none_ahead(files: Iterable[Path], say: Callable[[str], None]) -> None:
    """Date a results tree's future files now, if one of `files` (results/<tree>/...) is in the future."""
    now = time.time_ns()
    for tree in {Path(*file.parts[:2]) for file in files if file.stat().st_mtime_ns > now}:
        ahead = sum(_dated(one, now) for one in tree.rglob("*"))
        say(f"the clock was set back: {ahead} files of {tree} were dated ahead of it, and are of now")


def _dated(file: Path, now: int) -> bool:
    """Date a future file now and return True; False for others, and for a file just removed by another job."""
    with suppress(FileNotFoundError):
        if file.is_file() and file.stat().st_mtime_ns > now:
            os.utime(file, ns=(now, now))
            return True
    return False
