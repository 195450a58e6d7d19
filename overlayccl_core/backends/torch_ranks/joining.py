"""A rank's process from beginning to end: its place, its status, its errors."""

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from overlayccl_core import disk
from overlayccl_core.launching.local_ranks import STATUS
from overlayccl_core.launching.status import Phase, RankStatus, StatusFile

STAY_S = 30.0  # until the launcher ends all ranks: leaving earlier may upset the others


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """The place of a rank. local_rank: on its host; shared: status shared by the host's ranks and their watcher."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    shared: StatusFile

    @property
    def clock_offset_ns(self) -> int:
        """The offset from the host's CLOCK_MONOTONIC to the first node's, now: clocks drift."""
        return self.shared.clock_offset_ns

    @classmethod
    def from_environment(cls) -> "RankPlace":
        """Read the place from the environment set by `torch_ranks.fork_server`."""
        local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
        return cls(
            rank=int(os.environ["RANK"]),
            ranks=int(os.environ["WORLD_SIZE"]),
            local_rank=int(os.environ["LOCAL_RANK"]),
            local_ranks=local_ranks,
            shared=StatusFile.open(Path(os.environ[STATUS]), local_ranks),
        )


@contextmanager
def joined(folder: Path) -> Iterator[tuple[RankPlace, RankStatus]]:
    """Give this rank's place and status to the work; the process ends with it.

    An exception goes to rank-<r>.error and ends the launch.
    """
    place = RankPlace.from_environment()
    status = place.shared.row(place.local_rank)
    status.start(os.getpid())
    status.enter(Phase.JOINING)
    try:
        torch.set_num_threads(1)
        yield place, status
        status.enter(Phase.DONE)
        time.sleep(STAY_S)
    except Exception as error:
        failed_ns = time.monotonic_ns() + place.clock_offset_ns
        with suppress(OSError):  # a bad disk may be the reason
            (folder / f"rank-{place.rank}.error").write_text(traceback.format_exc())
        status.fail(failed_ns, disk.refused(error))
        os._exit(1)  # no orderly exit from the group: the others may be inside a collective
    os._exit(0)
