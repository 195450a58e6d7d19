"""Processes of a launch: none survives its parent, all are found and ended, and their CPU time is known.

Linux only: /proc and prctl(PR_SET_PDEATHSIG).
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
CLONE_NEWNET = 0x40000000  # linux/sched.h
KILLED_S = 60.0  # for a killed process to end: one with an accelerator gives its memory back first
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; the child itself must call it.

    `parent`: process id of the parent, by its own word: if it died before the call, the child has another by now.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def with_me() -> Callable[[], None]:
    return partial(die_with, os.getpid())


def with_me_in_a_new_network() -> Callable[[], None]:
    """Like `with_me`, in a new network namespace, made before the process begins. Needs CAP_SYS_ADMIN."""
    parent = os.getpid()

    def set_up() -> None:
        die_with(parent)
        if _libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")

    return set_up


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """State of a process in /proc: its letter (`T` stopped, `Z` dead), parent, CPU time in ticks.

    own_ticks: without reaped children.
    """

    letter: str
    parent: int
    own_ticks: int
    ticks: int

    @property
    def alive(self) -> bool:
        """False for a process that has ended and is not yet reaped."""
        return self.letter not in "ZX"


def state(pid: int) -> ProcessState | None:
    """Return the state of a process; None if there is none of this id."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    own, reaped = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return ProcessState(letter=fields[0], parent=int(fields[1]), own_ticks=own, ticks=own + reaped)


def age_s() -> float:
    """Return the seconds since this process began, exact to a tick: a wall clock may have been set meanwhile."""
    text = Path("/proc/self/stat").read_text()
    started = int(text[text.rindex(")") + 2 :].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def mentions(pid: int, text: str) -> bool:
    """Return whether a process was started with `text` in its command line: process ids are reused."""
    try:
        return text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def tree(root: int) -> dict[int, ProcessState]:
    """Return all processes below `root`, itself included."""
    states = {int(p.name): state(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}
    known = {pid: s for pid, s in states.items() if s is not None}
    below_root = {root: known[root]} if root in known else {}
    grown = True
    while grown:
        below = {pid: s for pid, s in known.items() if s.parent in below_root and pid not in below_root}
        below_root.update(below)
        grown = bool(below)
    return below_root


def kill_all(pids: Iterable[int], *, patience_s: float = KILLED_S) -> None:
    """Send SIGKILL to each, then wait until none of them runs; TimeoutError if the kernel keeps one."""
    wanted = list(pids)
    for pid in wanted:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    end = time.monotonic() + patience_s
    while left := [pid for pid in wanted if (s := state(pid)) is not None and s.alive]:
        if time.monotonic() > end:
            raise TimeoutError(f"processes {left} do not end after SIGKILL: look at them with `ps -p`")
        time.sleep(0.01)
