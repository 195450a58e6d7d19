"""A rank's process from its first word to its last: where it stands, its status, its errors."""

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from overlayccl_core import disk
from overlayccl_core.launching.parts import STATUS
from overlayccl_core.launching.status import Phase, RankStatus, Status

STAY_S = 30.0  # the launcher ends all ranks once all are done: one that leaves earlier may upset the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank stands. local_rank: on its host; shared: by its ranks with who watches them."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    shared: Status

    @property
    def clock_offset_ns(self) -> int:
        """What to add to the host's CLOCK_MONOTONIC to have that of the first node, now: clocks drift."""
        return self.shared.clock_offset_ns

    @classmethod
    def from_environment(cls) -> "Place":
        """As whoever started it has said (`torch_ranks.start`)."""
        local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
        return cls(
            rank=int(os.environ["RANK"]),
            ranks=int(os.environ["WORLD_SIZE"]),
            local_rank=int(os.environ["LOCAL_RANK"]),
            local_ranks=local_ranks,
            shared=Status.open(Path(os.environ[STATUS]), local_ranks),
        )


@contextmanager
def joined(folder: Path) -> Iterator[tuple[Place, RankStatus]]:
    """This rank's place and status, for work that ends with it; the process ends here.

    An exception goes to rank-<r>.error and ends the launch.
    """
    place = Place.from_environment()
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
        with suppress(OSError):  # the disk may be what it failed of
            (folder / f"rank-{place.rank}.error").write_text(traceback.format_exc())
        status.fail(failed_ns, disk.refused(error))
        os._exit(1)  # the group cannot be left in order: the others may be inside a collective
    os._exit(0)
