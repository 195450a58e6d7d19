"""Dates of files, which Snakemake compares: after a clock was set back, nothing may be dated ahead of it.

Snakemake ends a job whose outputs are older than its inputs with an error, after all that it measured.
"""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def none_ahead(files: Iterable[Path], say: Callable[[str], None]) -> None:
    """Date all of a results tree now that is dated later, where one of the files (results/<tree>/...) is."""
    now = time.time_ns()
    for tree in {Path(*file.parts[:2]) for file in files if file.stat().st_mtime_ns > now}:
        ahead = [one for one in tree.rglob("*") if one.is_file() and one.stat().st_mtime_ns > now]
        for one in ahead:
            os.utime(one, ns=(now, now))
        say(f"the clock was set back: {len(ahead)} files of {tree} were dated ahead of it, and are of now")
