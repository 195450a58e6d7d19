"""One run at a time on a results tree: a dead run's locks are free, and its jobs end themselves (`following`).

A run is a Snakemake starting jobs. It locks `.snakemake/runs/<tree>.run` until it ends or dies, and writes its
identity there.
"""

import json
import os
import platform
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from overlayccl_core import disk
from overlayccl_core.locks import ALONE, opened, taken
from overlayccl_core.timing import partial
from workflow_scripts.following import END_S, RUN, SURE_S, held, is_free, told_of

FOLDER = Path(".snakemake/runs")
SNAKEMAKE_LOCKS = Path(".snakemake/locks")  # Snakemake's; they outlive a kill; its version is pinned


def begin(tree: str, warn: Callable[[str], None]) -> None:
    """Lock `results/<tree>` for this process until it ends.

    Wait for jobs of a killed run, and remove its remains: Snakemake's locks, parts of files.

    Raises:
        ValueError: Another run has the tree, jobs do not end, or nothing can be written.
    """
    while held:  # by an earlier Snakemake of this process
        os.close(held.pop())
    run, jobs = FOLDER / f"{tree}.run", FOLDER / f"{tree}.jobs"
    _refuse_unwritable(FOLDER, Path("results") / tree)
    mine = opened(run)
    try:
        if not taken(mine, ALONE, SURE_S):
            raise ValueError(
                f"results/{tree} is being made by another run ({_who(run)}): wait until it has ended, or end it. "
                "Two at once would measure each other"
            )
        identity = secrets.token_hex(8)
        said = {
            "run": identity,
            "locks": not is_free(run),
            "process": os.getpid(),
            "host": platform.node(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.truncate(mine, 0)
        os.pwrite(mine, json.dumps(said).encode(), 0)
        os.environ[RUN] = f"{run.resolve()}:{identity}"
        _wait_for_jobs(jobs, tree, warn)
    except BaseException:
        os.close(mine)
        raise
    held.append(mine)
    if said["locks"]:
        _forget_locks(tree)
        _forget_parts(tree)
        end(tree)


def end(tree: str) -> None:
    """Remove launches with recorded tables: after a run, or before one if the last was killed."""
    for folder in Path("results", tree).rglob(partial.PARTIAL):
        partial.settle(folder)


def _refuse_unwritable(*folders: Path) -> None:
    """Raise ValueError unless each folder takes a file of one block: a run would fail after measuring."""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(4096))
        except OSError as error:
            number = disk.refused(error)
            why = disk.said(number, folder) if number else error.strerror
            raise ValueError(f"nothing can be written into {folder}: {why}. {disk.MEND}") from error


def _wait_for_jobs(file: Path, tree: str, warn: Callable[[str], None]) -> None:
    lock = opened(file)
    try:
        if not taken(lock, ALONE, 0.0):
            warn(f"the run before this was killed: waiting for its jobs on results/{tree} to end")
            if not taken(lock, ALONE, END_S + SURE_S):
                raise ValueError(
                    f"jobs of an earlier run still work on results/{tree}: look for them with "
                    "`ps -fC python` (on a cluster: `squeue`), and end them"
                )
    finally:
        os.close(lock)


def _forget_locks(tree: str) -> None:
    """Remove Snakemake's locks on the files of a tree, now ours alone, and on its archive."""
    mine = (f"results/{tree}/", f"results/{tree}.")
    for lock in SNAKEMAKE_LOCKS.glob("*.lock"):
        with suppress(FileNotFoundError):  # just removed by another tree's run
            if any(line.startswith(mine) for line in lock.read_text().splitlines()):
                lock.unlink()


def _forget_parts(tree: str) -> None:
    """Remove half-written files (`tables.atomic`) of a killed run."""
    results = Path("results")
    for part in (*(results / tree).rglob(".*.tmp"), *results.glob(f".{tree}.*.tmp")):
        part.unlink(missing_ok=True)


def _who(run: Path) -> str:
    said = told_of(run)
    return f"process {said.get('process')} on {said.get('host')}, since {said.get('since')}"
