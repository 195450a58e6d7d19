"""Locks released when their process ends, in any way; also on shared folders with locks."""

import errno
import fcntl
import os
import time
from math import inf
from pathlib import Path

ALONE, TOGETHER = fcntl.LOCK_EX, fcntl.LOCK_SH
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # errors of a folder without locks
AGAIN_S = 0.1


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
