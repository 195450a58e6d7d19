"""The progress of a launch: told at phase changes, then step by step, or in a line every half minute to people."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.launching.status import Phase, StatusFile
from overlayccl_core.measuring.progress import ProgressStep, takes_steps, tell

LINE_S = 30.0  # between lines
STEP_S = 1.0  # between steps, for listeners that take them
ROUNDS = (Phase.TIMING, Phase.CHECKING)  # phases that may be counted in rounds
Progress = Callable[[str], None]


class Reporter:
    """Reads the ranks' status rows (`watch`) and reports the progress of the slowest rank.

    head: name of the launch. total: returns its number of rounds, None while unknown.
    """

    def __init__(self, head: str, total: Callable[[], int | None], progress: Progress) -> None:
        self.head = head
        self.total = total
        self.progress = progress
        self._every_s = STEP_S if takes_steps(progress) else LINE_S
        self._said_at = 0.0
        self._phase: Phase | None = None
        self._first: tuple[float, int] | None = None  # when rounds were first seen, and how many

    def watch(self, rows: NDArray[np.int64]) -> None:
        """Look at the status rows, int64[ranks, 7]."""
        phase, now = Phase(int(rows[:, StatusFile.PHASE].min())), time.monotonic()
        if phase is self._phase and now - self._said_at < self._every_s:
            return
        if phase is not self._phase:
            self.progress(f"{self.head}: {phase.words}")
        elif phase in ROUNDS and (total := self.total()) is not None:
            self._tell_round(int(rows[:, StatusFile.ROUND].min()), total)
        self._phase, self._said_at = phase, now

    def _tell_round(self, done: int, total: int) -> None:
        """Report a round, with the time left as extrapolated from past rounds."""
        now = time.monotonic()
        self._first = self._first or (now, done)
        began, first = self._first
        left = (now - began) / (done - first) * (total - done) if done > first else None
        tell(self.progress, ProgressStep(phase=self.head, unit="round", done=done, total=total, left_s=left))
