"""Progress of a command: lines for people, and how far it is, for a display.

Every line goes to the rule's log. By hand, lines also go to the terminal, progress at most every 30 seconds. Under
Snakemake run_display/ shows a line for each running job instead, from the file beside the log.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from overlayccl_core.measuring.progress import ProgressStep
from overlayccl_core.tables import attempts

SHOWN_BY_SNAKEMAKE = "OVERLAYCCL_PROGRESS"  # set by run_display, as it shows progress itself
EVERY_S = 30.0


def progress_file(log: Path) -> Path:
    """Path of a command's progress file: beside its log, while it works."""
    return log.with_suffix(".progress.json")


class Progress:
    """Reports lines, called as stages expect it, and Steps."""

    def __init__(self, rule: str, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.rule = rule
        self.log = log
        self._clock = clock
        self._stepped_at: float | None = None
        with suppress(OSError):  # a full disk: then lines go to the terminal
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("")
            progress_file(log).unlink(missing_ok=True)  # of a killed run

    def __call__(self, text: str) -> None:
        """Log a line; it names the phase from now on."""
        _replace(progress_file(self.log), json.dumps(asdict(ProgressStep(phase=text))))
        self._say(text)

    def alive(self) -> None:
        """Note that the command works, for its cost if it is killed."""
        attempts.alive(self.log, time.time())

    def _say(self, text: str) -> None:
        self.alive()
        line = f"[{datetime.now():%H:%M:%S}] {self.rule}: {text}"
        logged = False
        with suppress(OSError), self.log.open("a") as log:
            log.write(line + "\n")
            log.flush()
            logged = True
        if not logged or SHOWN_BY_SNAKEMAKE not in os.environ:
            print(line, file=sys.stderr, flush=True)

    def step(self, step: ProgressStep) -> None:
        """Record progress: at once in the progress file, every 30 seconds as a line."""
        _replace(progress_file(self.log), json.dumps(asdict(step)))
        now = self._clock()
        if self._stepped_at is None or now - self._stepped_at >= EVERY_S:
            self._stepped_at = now
            self._say(str(step))

    def end(self) -> None:
        """Remove the progress file, after success or failure."""
        with suppress(OSError):
            progress_file(self.log).unlink(missing_ok=True)


def _replace(file: Path, text: str) -> None:
    """Replace a text atomically. It need not last, so nothing waits for the disk, or fails for it."""
    temporary = file.with_suffix(".tmp")
    with suppress(OSError):
        temporary.write_text(text)
        temporary.replace(file)
