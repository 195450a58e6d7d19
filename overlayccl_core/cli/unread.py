"""End a command quietly when nothing reads its output any more (`overlayccl problems | head -1`)."""

import os
import signal
import sys
from collections.abc import Callable

NOBODY_READS = 128 + signal.SIGPIPE  # as shells report it of other commands


def until_unread(work: Callable[[], int | None]) -> int:
    """Return the exit code of a command: its own, or NOBODY_READS if the pipe of its output was closed."""
    try:
        try:
            return work() or 0
        finally:
            if sys.stdout:
                sys.stdout.flush()  # here, to catch its failure
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest, at Python's end
        return NOBODY_READS
