"""The common part of torch-started ranks (`backends.rank.Rank`) of any library: place, clock, control messages."""

import statistics
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends.torch_ranks.joining import RankPlace
from overlayccl_core.launching.status import RankStatus

LEAD_NS = 2_000_000  # an all_reduce of 8 bytes on one host usually ends within 2 ms
LEADS = 2  # over several hosts: this many times the median of an agreement
TRIED = 21  # agreements timed for that
NEVER = timedelta(hours=12)  # the launcher decides when a rank hangs, not the library


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRank:
    """This rank. control: a group of all ranks with tensors in host memory, for messages beside the library.

    lead_ns: time from the agreement on an instant to the instant.
    """

    place: RankPlace
    status: RankStatus
    folder: Path
    control: Any
    lead_ns: int = field(default=LEAD_NS, init=False)

    def __post_init__(self) -> None:
        if self.place.local_ranks < self.place.ranks:
            object.__setattr__(self, "lead_ns", self._lead_ns())

    @property
    def index(self) -> int:
        return self.place.rank

    @property
    def ranks(self) -> int:
        return self.place.ranks

    def largest(self, *values: float) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.control)
        return [float(x) for x in tensor.tolist()]

    def everybody(self, *values: float) -> list[list[float]]:
        told = torch.empty(self.ranks, len(values), dtype=torch.float64)
        dist.all_gather(list(told), torch.tensor(values, dtype=torch.float64), group=self.control)
        of_ranks: list[list[float]] = told.tolist()
        return of_ranks

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC of the first node."""
        return time.monotonic_ns() + self.place.clock_offset_ns

    def meet(self) -> None:
        """Return on all ranks at the same instant: they agree on it ahead, and sleep until then; none spins."""
        left_ns = self._latest_ns() + self.lead_ns - self.now_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)

    def _latest_ns(self) -> int:
        instant = torch.tensor([self.now_ns()])
        dist.all_reduce(instant, op=dist.ReduceOp.MAX, group=self.control)
        return int(instant.item())

    def _lead_ns(self) -> int:
        """Return twice the median duration of an agreement on the slowest rank, at least LEAD_NS."""
        took = []
        for _ in range(TRIED):
            came = self._latest_ns()
            took.append(self.now_ns() - came)
        [slowest] = self.largest(statistics.median(took))
        return max(LEAD_NS, round(LEADS * slowest))
