"""One measurement at a time on a machine, whoever started it: two at once would both be wrong."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "overlayccl-machine.lock"


@contextmanager
def machine_lock(progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine; says once that it has to wait. The lock goes with the process that holds it."""
    lock = _opened(Path(tempfile.gettempdir()) / LOCK_FILE)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting: another measurement runs on this machine")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _opened(path: Path) -> int:
    """The file, open for reading: it may be another user's, which nobody else may open for writing."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        if os.fstat(lock).st_uid == os.geteuid():
            os.fchmod(lock, 0o644)  # whatever the umask: other users wait for it too
        return lock
