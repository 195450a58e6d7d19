"""What a job keeps to of the run that began it: it ends with it, and measures only where it may.

Jobs, on other hosts too, hold `.snakemake/runs/<tree>.jobs` together and look every second whether their run is
there: where it was killed they end as if interrupted, and keep what was measured. Where a shared folder has no
locks, or each host has its own, a job sees its run gone only when another one begins.
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

RUN = "OVERLAYCCL_RUN"  # tells jobs the file and the identity of their run
ELSEWHERE = "OVERLAYCCL_ELSEWHERE"  # tells jobs that measure why they may not
SURE_S = 3.0  # a job that looks after its run holds the run's file for a moment
LOOK_S = 0.5
SURE = 2  # looks in a row that find it gone
GONE = signal.SIGUSR1  # that its run is: Ctrl-C is nothing to what a script began with `&`
END_S = 60.0  # in which the ranks of a job have ended, and what they measured is kept

held: list[int] = []  # open as long as the process is there: locks go with it


def refuse_elsewhere() -> None:
    """Called by a job that would measure. ValueError where it may not."""
    if why := os.environ.get(ELSEWHERE):
        raise ValueError(why)


def follow(say: Callable[[str], None]) -> None:
    """Called by a job: end it, as Ctrl-C would, once its run is gone. Nothing where no run began it."""
    file, _, identity = os.environ.get(RUN, "").rpartition(":")
    if not file:
        return
    run = Path(file)
    jobs = opened(run.with_suffix(".jobs"))
    taken(jobs, TOGETHER, END_S)
    held.append(jobs)
    said = told_of(run)
    # On another host they do not tell where the folder's locks hold on one host only.
    locks_tell = bool(said.get("locks")) if said.get("host") == platform.node() else not is_free(run)
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
            if _identity(run) == identity and not (locks_tell and is_free(run)):
                return False
        except OSError:
            return False  # of a shared folder that cannot be read just now
    return True


def is_free(run: Path) -> bool:
    """Whether nobody holds a run's file: it is gone, or its run is."""
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
    """Of whom a run's file is; nothing where it is gone or being written. OSError where it cannot be read."""
    try:
        return dict(json.loads(run.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return {}
