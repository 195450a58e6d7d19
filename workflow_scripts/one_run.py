"""One run at a time on a results tree: a dead run's locks are nobody's, and its jobs end themselves.

A run is a Snakemake that starts jobs. It holds `.snakemake/runs/<tree>.run` as long as it lives, however it dies,
and writes into it who it is. Its jobs, on other hosts too, hold `<tree>.jobs` together and look every second
whether their run is there: where it was killed they end as if interrupted, and keep what was measured.

Where a shared folder has no locks, or each host has its own, a job sees its run gone only when another one begins.
"""

import json
import os
import platform
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from overlayccl_core import disk
from overlayccl_core.locks import ALONE, TOGETHER, opened, taken

FOLDER = Path(".snakemake/runs")
SNAKEMAKE_LOCKS = Path(".snakemake/locks")  # Snakemake's, which stay when it is killed; its version is pinned
RUN = "OVERLAYCCL_RUN"  # tells jobs the file and the identity of their run
SURE_S = 3.0  # a job that looks after its run holds the run's file for a moment
LOOK_S = 1.0
END_S = 60.0  # in which the ranks of a job have ended, and what they measured is kept

_held: list[int] = []  # open as long as the process is there: locks go with it


def begin(tree: str, warn: Callable[[str], None]) -> None:
    """Have `results/<tree>` for this process until it ends.

    Waits for jobs of a run that was killed, and takes away what it left: Snakemake's locks, parts of files.
    ValueError where another run has the tree, jobs do not end, or nothing can be written.
    """
    while _held:  # by a Snakemake that this process ran before
        os.close(_held.pop())
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
    _held.append(mine)
    if not _free(run):
        _forget_locks(tree)
        _forget_parts(Path("results") / tree)


def follow(say: Callable[[str], None]) -> None:
    """Called by a job: end it, as Ctrl-C would, once its run is gone. Nothing where no run began it."""
    file, _, identity = os.environ.get(RUN, "").rpartition(":")
    if not file:
        return
    run = Path(file)
    jobs = opened(run.with_suffix(".jobs"))
    taken(jobs, TOGETHER, END_S)
    _held.append(jobs)
    locks_tell = not _free(run)  # they do not where the folder's locks hold on one host only
    threading.Thread(target=_look, args=(run, identity, locks_tell, say), daemon=True).start()


def _look(run: Path, identity: str, locks_tell: bool, say: Callable[[str], None]) -> None:
    while _identity(run) == identity and not (locks_tell and _free(run)):
        time.sleep(LOOK_S)
    say("the run that began this is gone: ending")
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(END_S)
    os.kill(os.getpid(), signal.SIGKILL)  # ranks end with it


def _free(run: Path) -> bool:
    """Whether nobody holds a run's file: it is gone, or its run is."""
    try:
        lock = os.open(run, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return taken(lock, TOGETHER, 0.0)
    finally:
        os.close(lock)


def _refuse_unwritable(*folders: Path) -> None:
    """ValueError where a file of a block cannot be written into each folder: a run would fail after it measured."""
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
    """Take away Snakemake's locks on files of a tree that nobody else has."""
    for lock in SNAKEMAKE_LOCKS.glob("*.lock"):
        if any(line.startswith(f"results/{tree}/") for line in lock.read_text().splitlines()):
            lock.unlink()


def _forget_parts(tree: Path) -> None:
    """Take away files that were being written (`tables.atomic`) when a run was killed."""
    for part in tree.rglob(".*.tmp"):
        part.unlink(missing_ok=True)


def _identity(run: Path) -> str:
    return str(_said(run).get("run", ""))


def _who(run: Path) -> str:
    said = _said(run)
    return f"process {said.get('process')} on {said.get('host')}, since {said.get('since')}"


def _said(run: Path) -> dict[str, object]:
    try:
        return dict(json.loads(run.read_text()))
    except (OSError, ValueError, TypeError):
        return {}
