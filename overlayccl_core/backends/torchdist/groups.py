"""Process groups of a launch, one of each kind for all its modules."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch.distributed as dist

Group = Any  # torch gives no public type for process groups


@cache
def shared_group(ranks: tuple[int, ...]) -> Group:
    """Return the process group of some global ranks, one for all modules of a launch; all ranks must ask alike."""
    if ranks == tuple(range(dist.get_world_size())):
        return dist.group.WORLD
    ordered = list(ranks) == sorted(ranks)
    return dist.new_group(list(ranks)) if ordered else dist.new_group(list(ranks), sort_ranks=False)


def group_of(rank: int, members: Sequence[tuple[int, ...]]) -> Group:
    """Return a rank's group among several: all ranks make all of them."""
    groups = {ranks: shared_group(ranks) for ranks in members}
    return next(group for ranks, group in groups.items() if rank in ranks)


def make_usual_groups() -> None:
    """Make contiguous groups of every size that divides the ranks, in every launch, used or not.

    The number of process groups changes the cost of a collective on any of them, so launches with different groups
    could not be compared. A training job has several groups, too.
    """
    ranks = dist.get_world_size()
    for size in (g for g in range(2, ranks + 1) if ranks % g == 0):
        for first in range(0, ranks, size):
            shared_group(tuple(range(first, first + size)))
