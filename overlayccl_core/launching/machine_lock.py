"""One measurement at a time on a machine, across users: two at once would both be wrong."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "overlayccl-machine.lock"


@contextmanager
def machine_lock(progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine; report once if there is a wait. The lock ends with its process."""
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
    """Open the file for reading: only its owner may open it for writing."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        if os.fstat(lock).st_uid == os.geteuid():
            os.fchmod(lock, 0o644)  # despite any umask: other users wait for it too
        return lock
