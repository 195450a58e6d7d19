"""Output that nobody reads any more (`overlayccl problems | head -1`) ends a command without a word."""

import os
import signal
import sys
from collections.abc import Callable

NOBODY_READS = 128 + signal.SIGPIPE  # as shells tell of other commands


def until_unread(work: Callable[[], int | None]) -> int:
    """The exit code of a command: its own, or NOBODY_READS where the pipe that it writes into was closed."""
    try:
        try:
            return work() or 0
        finally:
            if sys.stdout:
                sys.stdout.flush()  # here, where its failing can be caught
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest goes when Python ends
        return NOBODY_READS
