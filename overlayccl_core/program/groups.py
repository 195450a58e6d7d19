"""Replica groups: a partition of the ranks into groups of equal size, with arrays for its readers."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.kinds import Rejected

Ints = NDArray[np.int64]
NO_ORDER = 0


class Groups:
    """A partition of ranks 0..N-1 into groups of `size` members; blocks of a collective are in member order.

    `stride`: from a member to the next, the same in all groups; NO_ORDER if there is no such number. Only
    `groups_of` makes one, and keeps one object per partition.
    """

    __slots__ = ("array", "digest", "group", "members", "place", "ranks", "size", "stride")

    def __init__(self, members: tuple[tuple[int, ...], ...]) -> None:
        self.members = members
        self.array: Ints = np.array(members, np.int64)
        self.size = self.array.shape[1]
        self.ranks = self.array.size
        self.group: Ints = np.zeros(self.ranks, np.int64)  # of each rank
        self.place: Ints = np.zeros(self.ranks, np.int64)  # of each rank in its group
        self.group[self.array] = np.arange(len(members))[:, None]
        self.place[self.array] = np.arange(self.size)
        steps = np.diff(self.array, axis=1)
        self.stride = (
            max(int(steps.min()), NO_ORDER) if steps.size and steps.min() == steps.max() else NO_ORDER
        )
        self.digest = hashlib.blake2b(repr(members).encode(), digest_size=12).digest()

    @property
    def is_world(self) -> bool:
        """True if one group holds all ranks in order."""
        return self is world(self.ranks)

    def __repr__(self) -> str:
        return "world" if self.is_world else f"{len(self.members)} groups of {self.size}"


@lru_cache(maxsize=4096)
def _interned(members: tuple[tuple[int, ...], ...], ranks: int) -> Groups:
    sizes = {len(g) for g in members}
    if sorted(r for g in members for r in g) != list(range(ranks)) or len(sizes) != 1:
        raise Rejected(
            f"replica groups must partition ranks 0..{ranks - 1} into groups of equal size"
            f" (got {len(members)} groups of sizes {sorted(sizes)}): name every rank once"
        )
    return Groups(members)


def groups_of(members: Iterable[Sequence[int]], ranks: int) -> Groups:
    """Return the one Groups object of these members; Rejected if they are no partition into equal sizes."""
    return _interned(tuple(tuple(int(r) for r in g) for g in members), ranks)


@lru_cache(maxsize=64)
def world(ranks: int) -> Groups:
    """One group of all ranks."""
    return _interned((tuple(range(ranks)),), ranks)


@lru_cache(maxsize=64)
def contiguous(ranks: int, size: int) -> Groups:
    """Groups of `size` consecutive ranks: with the ranks of a node, a group within each node."""
    return groups_of([range(k, k + size) for k in range(0, ranks, size)], ranks)


@lru_cache(maxsize=64)
def strided(ranks: int, stride: int) -> Groups:
    """Groups of every stride-th rank: with the ranks of a node, groups across nodes."""
    return groups_of([range(k, ranks, stride) for k in range(stride)], ranks)
