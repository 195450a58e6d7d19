"""Ties of a job to its run: it ends with the run, and measures only if it may.

Jobs, on other hosts too, share a lock on `.snakemake/runs/<tree>.jobs` and check every half second for their run.
After a kill of the run they end as if interrupted, and keep all measurements. If a shared folder has no locks, or
each host has its own, a job sees its run gone only when another one begins.
"""

import json
import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from overlayccl_core.locks import TOGETHER, opened, taken

RUN = "OVERLAYCCL_RUN"  # variable with the file and the identity of a job's run
ELSEWHERE = "OVERLAYCCL_ELSEWHERE"  # variable with the reason to measure nothing
SURE_S = 3.0  # a job's check locks the run's file for a moment
LOOK_S = 0.5
ALIVE_S = 2.0  # so often a job notes that it works
SURE = 2  # checks in a row to find it gone
GONE = signal.SIGUSR1  # a script's job begun with `&` ignores Ctrl-C
END_S = 60.0  # enough for a job's ranks to end and their samples to be kept

held: list[int] = []  # open while the process lives: locks go with it


def refuse_elsewhere() -> None:
    """Raise ValueError if this job, about to measure, may not."""
    if why := os.environ.get(ELSEWHERE):
        raise ValueError(why)


def follow(say: Callable[[str], None], alive: Callable[[], None] = lambda: None) -> None:
    """End this job, as Ctrl-C would, once its run is gone. Do nothing without a run.

    alive: called every few seconds until then, from another thread.
    """
    file, _, identity = os.environ.get(RUN, "").rpartition(":")
    if not file:
        return
    run = Path(file)
    jobs = opened(run.with_suffix(".jobs"))
    taken(jobs, TOGETHER, END_S)
    held.append(jobs)
    said = told_of(run)
    # From another host, locks count only if the run's own lock is visible here.
    locks_tell = bool(said.get("locks")) if said.get("host") == platform.node() else not is_free(run)
    signal.signal(GONE, signal.default_int_handler)  # as Ctrl-C: KeyboardInterrupt
    look = (run, identity, locks_tell)
    if _gone_for_sure(*look):  # while this job was queued
        say("the run that began this is gone: ending")
        raise KeyboardInterrupt
    threading.Thread(target=_end_when_gone, args=(*look, say, alive), daemon=True).start()


def _end_when_gone(
    run: Path, identity: str, locks_tell: bool, say: Callable[[str], None], alive: Callable[[], None]
) -> None:
    noted = -ALIVE_S
    while not _gone_for_sure(run, identity, locks_tell):
        if (now := time.monotonic()) - noted >= ALIVE_S:
            alive()
            noted = now
        time.sleep(LOOK_S)
    say("the run that began this is gone: ending")
    os.kill(os.getpid(), GONE)
    time.sleep(END_S)
    os.kill(os.getpid(), signal.SIGKILL)  # ranks end with it


def _gone_for_sure(run: Path, identity: str, locks_tell: bool) -> bool:
    """Return whether several checks in a row find the run gone."""
    for look in range(SURE):
        time.sleep(LOOK_S * bool(look))
        try:
            if _identity(run) == identity and not (locks_tell and is_free(run)):
                return False
        except OSError:
            return False  # a shared folder, unreadable just now
    return True


def is_free(run: Path) -> bool:
    """Return whether a run's file is unlocked, or gone."""
    try:
        lock = os.open(run, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return taken(lock, TOGETHER, 0.0)
    finally:
        os.close(lock)


def _identity(run: Path) -> str:
    return str(told_of(run).get("run", ""))


def told_of(run: Path) -> dict[str, object]:
    """Return the contents of a run's file; empty if it is gone or being written. OSError if it cannot be read."""
    try:
        return dict(json.loads(run.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return {}
