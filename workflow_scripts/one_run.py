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
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from overlayccl_core import disk
from overlayccl_core.backends import partial
from overlayccl_core.locks import ALONE, TOGETHER, opened, taken

FOLDER = Path(".snakemake/runs")
SNAKEMAKE_LOCKS = Path(".snakemake/locks")  # Snakemake's, which stay when it is killed; its version is pinned
RUN = "OVERLAYCCL_RUN"  # tells jobs the file and the identity of their run
SURE_S = 3.0  # a job that looks after its run holds the run's file for a moment
LOOK_S = 0.5
SURE = 2  # looks in a row that find it gone
GONE = (
    signal.SIGUSR1
)  # tells a job that its run is gone: a Ctrl-C is nothing to what was begun with `&` in a script
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
            "locks": not _free(run),
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
    if said["locks"]:
        _forget_locks(tree)
        _forget_parts(tree)
        end(tree)


def end(tree: str) -> None:
    """Remove launches whose tables are recorded: after a run, or before one, of what a killed one left."""
    for folder in Path("results", tree).rglob(partial.PARTIAL):
        partial.settle(folder)


def follow(say: Callable[[str], None]) -> None:
    """Called by a job: end it, as Ctrl-C would, once its run is gone. Nothing where no run began it."""
    file, _, identity = os.environ.get(RUN, "").rpartition(":")
    if not file:
        return
    run = Path(file)
    jobs = opened(run.with_suffix(".jobs"))
    taken(jobs, TOGETHER, END_S)
    _held.append(jobs)
    said = _said(run)
    # On another host they do not tell where the folder's locks hold on one host only.
    locks_tell = bool(said.get("locks")) if said.get("host") == platform.node() else not _free(run)
    signal.signal(GONE, signal.default_int_handler)  # as Ctrl-C: KeyboardInterrupt
    look = (run, identity, locks_tell)
    if _gone_for_sure(*look):  # while this waited in a queue
        say("the run that began this is gone: ending")
        raise KeyboardInterrupt
    threading.Thread(target=_end_when_gone, args=(*look, say), daemon=True).start()


def _end_when_gone(run: Path, identity: str, locks_tell: bool, say: Callable[[str], None]) -> None:
    while not _gone_for_sure(run, identity, locks_tell):
        time.sleep(LOOK_S)
    say("the run that began this is gone: ending")
    os.kill(os.getpid(), GONE)
    time.sleep(END_S)
    os.kill(os.getpid(), signal.SIGKILL)  # ranks end with it


def _gone_for_sure(run: Path, identity: str, locks_tell: bool) -> bool:
    """Whether a run is gone at several looks in a row."""
    for look in range(SURE):
        time.sleep(LOOK_S * bool(look))
        try:
            if _identity(run) == identity and not (locks_tell and _free(run)):
                return False
        except OSError:
            return False  # of a shared folder that cannot be read just now
    return True


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
    """Take away Snakemake's locks on files of a tree that nobody else has, and on its archive."""
    mine = (f"results/{tree}/", f"results/{tree}.")
    for lock in SNAKEMAKE_LOCKS.glob("*.lock"):
        with suppress(FileNotFoundError):  # of another tree, whose run has just removed it
            if any(line.startswith(mine) for line in lock.read_text().splitlines()):
                lock.unlink()


def _forget_parts(tree: str) -> None:
    """Take away files that were being written (`tables.atomic`) when a run was killed."""
    results = Path("results")
    for part in (*(results / tree).rglob(".*.tmp"), *results.glob(f".{tree}.*.tmp")):
        part.unlink(missing_ok=True)


def _identity(run: Path) -> str:
    return str(_said(run).get("run", ""))


def _who(run: Path) -> str:
    said = _said(run)
    return f"process {said.get('process')} on {said.get('host')}, since {said.get('since')}"


def _said(run: Path) -> dict[str, object]:
    """Of whom a run's file is; nothing where it is gone or being written. OSError where it cannot be read."""
    try:
        return dict(json.loads(run.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return {}
