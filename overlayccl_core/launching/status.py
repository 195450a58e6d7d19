"""Status of each rank, in shared memory: the launcher reads it while ranks run, at no cost to them."""

from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.disk import allocate

NO_JOB = -1
WIDTH = 7  # of a row


class Phase(IntEnum):
    """Phase in a rank's life."""

    STARTING = 0  # of a new file: the process has not reported yet
    JOINING = 1
    PREPARING = 2
    CALIBRATING = 3
    TIMING = 4
    CHECKING = 5
    DONE = 6
    FAILED = 7

    @property
    def words(self) -> str:
        return self.name.lower()


class StatusFile:
    """int64[ranks, 7] in a file, one row per rank.

    A row: process id, phase, job, steps taken, round, time of failure (ns), errno of a refused file (0: none).
    After the rows, for the ranks: clock_offset_ns, to be added to the host's CLOCK_MONOTONIC.
    """

    PID, PHASE, JOB, STEPS, ROUND, FAILED_NS, REFUSED = range(WIDTH)

    def __init__(self, array: NDArray[np.int64], clock_offset: NDArray[np.int64] | None = None) -> None:
        self.array = array
        self._clock_offset = np.zeros(1, np.int64) if clock_offset is None else clock_offset

    @classmethod
    def create(cls, path: Path, ranks: int, clock_offset_ns: int = 0) -> "StatusFile":
        """Create a file with no rank started; OSError if there is no room for it."""
        allocate(path, 8 * (WIDTH * ranks + 1))
        status = cls.open(path, ranks)
        status.array[:, cls.JOB] = NO_JOB
        status.clock_offset_ns = clock_offset_ns
        return status

    @classmethod
    def open(cls, path: Path, ranks: int) -> "StatusFile":
        """Open the launcher's file."""
        shared = np.asarray(np.memmap(path, np.int64, "r+", shape=(WIDTH * ranks + 1,)))
        return cls(shared[:-1].reshape(ranks, WIDTH), shared[-1:])

    @property
    def clock_offset_ns(self) -> int:
        """The latest value; a read is one load from shared memory."""
        return int(self._clock_offset[0])

    @clock_offset_ns.setter
    def clock_offset_ns(self, offset_ns: int) -> None:
        self._clock_offset[0] = offset_ns

    def row(self, rank: int) -> "RankStatus":
        return RankStatus(self.array[rank])

    def snapshot(self) -> NDArray[np.int64]:
        return np.array(self.array)


class RankStatus:
    """One rank's own row; a write is one store to shared memory."""

    __slots__ = ("_row",)

    def __init__(self, row: NDArray[np.int64]) -> None:
        self._row = row

    def start(self, pid: int) -> None:
        self._row[StatusFile.PID] = pid

    def enter(self, phase: Phase) -> None:
        self._row[StatusFile.PHASE] = phase
        self._row[StatusFile.STEPS] += 1

    def fail(self, now_ns: int, refused: int = 0) -> None:
        """Report an exception at a time of CLOCK_MONOTONIC; `refused`: its `disk.refused`."""
        self._row[StatusFile.REFUSED] = refused
        self._row[StatusFile.FAILED_NS] = now_ns
        self._row[StatusFile.PHASE] = Phase.FAILED

    def work_on(self, job: int) -> None:
        """Count one more step, on a job (or on none)."""
        self._row[StatusFile.JOB] = job
        self._row[StatusFile.STEPS] += 1

    def start_round(self, index: int) -> None:
        """Report a round, counted from 1."""
        self._row[StatusFile.ROUND] = index
