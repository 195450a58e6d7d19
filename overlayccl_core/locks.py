"""Locks that go with the process that holds them, however it ends; of shared folders, too, where those have any."""

import errno
import fcntl
import os
import time
from math import inf
from pathlib import Path

ALONE, TOGETHER = fcntl.LOCK_EX, fcntl.LOCK_SH
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # what a folder says that has none
AGAIN_S = 0.1


def opened(path: Path) -> int:
    """A file to be locked, made where it is not there: NFS excludes others only for who may write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def taken(file: int, kind: int, patience_s: float = inf) -> bool:
    """Whether an open file could be had within some seconds; where there are no locks, nobody holds one."""
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
