"""Tiers of ranks, found in times of exchanges between pairs, and the check of declared ones.

Ranks are clustered by single linkage: a unit is a set of ranks joined by fast pairs. A slow pair does not tear a
unit apart, and a sample of the pairs is enough. A gap between two heights of the tree is a split if it is wider
than NEARER, and the even rounds and the odd ones have it, too. A split into units of equal size is a tier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

NEARER = 1.5  # times as fast: our choice, beyond the noise of ranks that share cores
FAR = 10.0  # times the slowest pair: what an untimed pair counts as
Units = tuple[tuple[int, ...], ...]
Rounds = NDArray[np.float64]
"""us of an exchange: float64[rounds, N, N], symmetric, NaN for pairs that were not timed."""


def is_nearer(near_us: float, far_us: float) -> bool:
    """Tell whether ranks with the first time are nearer than those with the second, beyond noise."""
    return near_us * NEARER < far_us


def least(rounds: Rounds) -> NDArray[np.float64]:
    """Return the least time of each pair, float64[N, N]: on a busy machine, others only add to a time."""
    return rounds.min(axis=0)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSplit:
    """Ranks in units: joined by pairs of at most `within_us`, with at least `between_us` from unit to unit."""

    units: Units
    within_us: float
    between_us: float

    @property
    def is_tier(self) -> bool:
        """Whether all units have the same size."""
        return len({len(unit) for unit in self.units}) == 1

    @property
    def consecutive(self) -> bool:
        """Whether the ranks of each unit are consecutive."""
        return all(unit[-1] - unit[0] == len(unit) - 1 for unit in self.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTiers:
    """Splits of the ranks 0..N-1, the nearest first."""

    ranks: int
    splits: tuple[RankSplit, ...]

    @classmethod
    def of(cls, rounds: Rounds) -> "FoundTiers":
        """Find the splits that the even rounds and the odd ones agree on."""
        halves = [{one.units for one in _splits(least(half))} for half in (rounds[::2], rounds[1::2])]
        agreed = tuple(one for one in _splits(least(rounds)) if all(one.units in half for half in halves))
        return cls(ranks=rounds.shape[1], splits=agreed)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Ranks of a unit, of each tier of consecutive ranks; the last holds all ranks."""
        tiers = (one for one in self.splits if one.is_tier and one.consecutive)
        return (*(len(one.units[0]) for one in tiers), self.ranks)

    @property
    def scattered(self) -> RankSplit | None:
        """The first tier whose units are not of consecutive ranks: no deployment's file can say it."""
        return next((one for one in self.splits if one.is_tier and not one.consecutive), None)

    @property
    def uneven(self) -> tuple[RankSplit, ...]:
        """Splits beyond all tiers: some ranks are farther from the others than these from one another."""
        tiers = [place for place, one in enumerate(self.splits) if one.is_tier]
        return self.splits[max(tiers, default=-1) + 1 :]


def _splits(us: NDArray[np.float64]) -> list[RankSplit]:
    """Return the splits of a matrix of times, the nearest first."""
    known = np.where(np.isnan(us), FAR * np.nanmax(us), us)
    np.fill_diagonal(known, 0.0)
    tree = linkage(squareform(known, checks=False), "single")
    found = []
    for near, far in pairwise(tree[:, 2]):
        if is_nearer(near, far):
            of_rank = fcluster(tree, near, "distance")
            units = {unit: tuple(np.flatnonzero(of_rank == unit).tolist()) for unit in of_rank.tolist()}
            found.append(
                RankSplit(units=tuple(sorted(units.values())), within_us=float(near), between_us=float(far))
            )
    return found


def reach(ranks: int, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the number (from 0) of the nearest tier that holds both ranks of a pair: int64[N, N].

    Args:
        sizes: Ranks of a unit, of each tier; the last holds all ranks.
    """
    unit = np.arange(ranks)[None, :] // np.array(sizes)[:, None]
    nearest: NDArray[np.int64] = (unit[:, :, None] == unit[:, None, :]).argmax(axis=0)
    return nearest


def slow_pairs(rounds: Rounds, sizes: Sequence[int]) -> list[tuple[int, int, float]]:
    """Return (rank, rank, times the median of their tier) of pairs slower than that, the slowest first.

    Beyond noise, and in the even rounds as in the odd ones.
    """
    tier, slow = reach(rounds.shape[1], sizes), []
    whole, *halves = (_over_median(least(part), tier) for part in (rounds, rounds[::2], rounds[1::2]))
    for one, other in np.argwhere(np.triu(np.fmin(*halves), 1) > NEARER).tolist():
        slow.append((one, other, float(whole[one, other])))
    return sorted(slow, key=lambda pair: -pair[2])


def _over_median(us: NDArray[np.float64], tier: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each pair's time over the median of its tier, float64[N, N]; 0 for pairs that were not timed."""
    over = np.zeros(us.shape)
    for number in range(tier.max() + 1):
        of_tier = (tier == number) & ~np.isnan(us)
        if of_tier.any():
            over[of_tier] = us[of_tier] / np.median(us[of_tier])
    return over


def contradiction(us: NDArray[np.float64], found: Sequence[int], declared: Sequence[int]) -> str:
    """Return by which pairs declared tiers are wrong, in a clause; empty if they are the found ones.

    Args:
        us: Times of pairs, float64[N, N].
        found, declared: Ranks of a unit, of each tier; the last holds all ranks.
    """
    declared = [size for size in declared if size > 1]
    if list(found) == declared:
        return ""
    size = min({*found} ^ {*declared})
    near, far = _typical(us, size, sorted({*found, *declared}))
    times = f"ranks {near[0]} and {near[1]} take {us[near]:.0f} us, {far[0]} and {far[1]} {us[far]:.0f} us"
    if size in found:
        return f"{times}, and no tier of {size} ranks is declared"
    return f"{times}, and a tier of {size} ranks is declared"


def _typical(
    us: NDArray[np.float64], size: int, sizes: Sequence[int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (a pair that `size` is the nearest of the sizes of, one of the next size), with the median times."""
    tier, place = reach(len(us), sizes), sizes.index(size)

    def middle(number: int) -> tuple[int, int]:
        pairs = np.argwhere(np.triu(~np.isnan(us), 1) & (tier == number)).tolist()
        one, other = sorted(pairs, key=lambda pair: float(us[tuple(pair)]))[(len(pairs) - 1) // 2]
        return one, other

    return middle(place), middle(place + 1)
