"""Locks released when their process ends, in any way: of files, also on shared folders, and of the machine."""

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

ALONE, TOGETHER = fcntl.LOCK_EX, fcntl.LOCK_SH
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # errors of a folder without locks
AGAIN_S = 0.1
MACHINE = "overlayccl-machine.lock"


def opened(path: Path) -> int:
    """Open a file to be locked, and make it if missing: NFS excludes others only for writers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def taken(file: int, kind: int, patience_s: float = inf) -> bool:
    """Return whether an open file was locked within some seconds; always, in a folder without locks."""
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(AGAIN_S)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return True
        else:
            return True


@contextmanager
def machine_lock(progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine against other measurements, of all users; report once if there is a wait."""
    lock = _readable(Path(tempfile.gettempdir()) / MACHINE)
    try:
        try:
            fcntl.flock(lock, ALONE | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting: another measurement runs on this machine")
            fcntl.flock(lock, ALONE)  # waits in the kernel: who polls is passed by
        yield
    finally:
        os.close(lock)


def machine_is_free() -> bool:
    """Return whether no measurement holds the machine."""
    lock = _readable(Path(tempfile.gettempdir()) / MACHINE)
    try:
        return taken(lock, TOGETHER, 0)
    finally:
        os.close(lock)


def _readable(path: Path) -> int:
    """Open the file for reading: only its owner may open it for writing."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        if os.fstat(lock).st_uid == os.geteuid():
            os.fchmod(lock, 0o644)  # despite any umask: other users wait for it too
        return lock
