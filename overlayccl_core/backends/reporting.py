"""How far a launch is, in a line for people: at once when its phase changes, else every half minute."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.status import Phase, Status

REPORT_S = 30.0
Progress = Callable[[str], None]


class Reporter:
    """Looks at the ranks' status rows (`watch`) and says how far they are.

    head: what runs. how_far(round): in words, while it times; round: the least of all ranks.
    """

    def __init__(self, head: str, how_far: Callable[[int], str], progress: Progress) -> None:
        self.head = head
        self.how_far = how_far
        self.progress = progress
        self._said_at = -REPORT_S
        self._phase: Phase | None = None

    def watch(self, rows: NDArray[np.int64]) -> None:
        """See int64[ranks, 6] as they stand."""
        phase, now = Phase(int(rows[:, Status.PHASE].min())), time.monotonic()
        if phase is self._phase and now - self._said_at < REPORT_S:
            return
        self._phase, self._said_at = phase, now
        far = self.how_far(int(rows[:, Status.ROUND].min())) if phase is Phase.TIMING else phase.words
        self.progress(f"{self.head}: {far}")
