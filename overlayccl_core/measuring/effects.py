"""Effects of factors on a time: of each alone, of several together, and the part of each in the whole.

A gain is the logarithm of the time without any factor over the time with some; it is taken in each launch, of the
medians of common rounds. All effects are linear in the gains of a launch, so they add up there, and so do their
means over launches. The interval of each is Student's over the launches.

The part of a factor is its Shapley value (Shapley 1953): what adding it gains, the mean over all orders of adding
the factors; for two factors, the main effect of a factorial design. The dividend of several factors (Harsanyi 1959)
is their gain beyond that of fewer of them; for two, their interaction.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, combinations, permutations

import numpy as np

from overlayccl_core.measuring.statistics import Floats, Launches, Ratio, geometric_mean

INTERACTIONS = 3  # factors up to which all sets of them are told
EVERY_SET = 4  # factors up to which every set of them is measured
Factors = frozenset[str]
NONE: Factors = frozenset()


class FactorEffect(StrEnum):
    """What a figure is of."""

    WHOLE = "whole"
    PART = "part"
    ALONE = "alone"
    TOGETHER = "together"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An effect. ratio: how many times as fast; share: of the whole's logarithm, if the whole is not 1."""

    effect: FactorEffect
    factors: tuple[str, ...]
    ratio: Ratio
    share: float | None


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The effects of factors, from times with each set of them.

    Attributes:
        factors: All of them; the order is that of the report.
        us: set of factors -> launch -> its samples. Sets without an entry were not measured; the empty one and that
            of all factors are needed.
    """

    factors: tuple[str, ...]
    us: Mapping[Factors, Launches]

    @cached_property
    def launches(self) -> list[int]:
        """The launches that timed all measured sets."""
        return sorted(set.intersection(*(set(one) for one in self.us.values())))

    @cached_property
    def gains(self) -> dict[Factors, Floats]:
        """set -> [launches]: log of the time without any factor over the time with these."""
        medians = {one: [] for one in self.us}  # type: dict[Factors, list[float]]
        for launch in self.launches:
            rounds = min(len(times[launch]) for times in self.us.values())
            for one, times in self.us.items():
                medians[one].append(float(np.median(times[launch][:rounds])))
        logs = {one: np.log(np.array(us, np.float64)) for one, us in medians.items()}
        return {one: logs[NONE] - log for one, log in logs.items()}

    @property
    def whole(self) -> Ratio:
        """How many times as fast all factors make a step."""
        return geometric_mean(self.gains[frozenset(self.factors)])

    def told(self) -> Iterator[Told]:
        """Yield the whole, the part of each factor, and of few factors what each gives alone, and together."""
        whole = self.gains[frozenset(self.factors)]
        yield self._told(FactorEffect.WHOLE, self.factors, whole)
        for factor in self.factors:
            yield self._told(FactorEffect.PART, (factor,), self.part(factor))
        if len(self.factors) in range(2, INTERACTIONS + 1):
            for some in subsets(self.factors):
                if some:
                    effect = FactorEffect.ALONE if len(some) == 1 else FactorEffect.TOGETHER
                    yield self._told(effect, some, self.dividend(some))

    def part(self, factor: str) -> Floats:
        """Return the Shapley value of a factor, [launches], over the orders whose sets were all measured."""
        gained = [self.gains[with_it] - self.gains[before] for before, with_it in self._adding(factor)]
        return np.asarray(np.mean(gained, axis=0), np.float64)

    def _adding(self, factor: str) -> Iterator[tuple[Factors, Factors]]:
        for order in orders(self.factors, self.us):
            before = frozenset(order[: order.index(factor)])
            yield before, before | {factor}

    def dividend(self, some: Sequence[str]) -> Floats:
        """Return what these factors gain together beyond what fewer of them gain, [launches]."""
        signed = [(-1) ** (len(some) - len(one)) * self.gains[frozenset(one)] for one in subsets(some)]
        return np.asarray(np.sum(signed, axis=0), np.float64)

    def _told(self, effect: FactorEffect, factors: tuple[str, ...], logs: Floats) -> Told:
        whole = self.whole
        clear = whole.low is not None and whole.high is not None and not whole.low <= 1 <= whole.high
        share = float(logs.mean() / self.gains[frozenset(self.factors)].mean()) if clear else None
        return Told(effect=effect, factors=factors, ratio=geometric_mean(logs), share=share)


def half_width(ratio: Ratio) -> float | None:
    """Return how far the ends of a ratio's interval are from its middle: 0.05 is 5%; None without an interval."""
    if ratio.low is None or ratio.high is None:
        return None
    return float((ratio.high / ratio.low) ** 0.5 - 1)


def subsets(factors: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all sets of the factors, smaller ones first, each in their order."""
    return chain.from_iterable(combinations(factors, size) for size in range(len(factors) + 1))


def orders(factors: Sequence[str], measured: Collection[Factors]) -> Iterator[tuple[str, ...]]:
    """Yield the orders of adding the factors, one by one, of which every set was measured."""
    for order in permutations(factors):
        if all(frozenset(order[:size]) in measured for size in range(len(order) + 1)):
            yield order


def drawn_orders(factors: Sequence[str], seed: int) -> Iterator[tuple[str, ...]]:
    """Yield orders of adding the factors without end, drawn at random; after each one the same backwards."""
    random = np.random.default_rng(seed)
    while True:
        order = tuple(factors[index] for index in random.permutation(len(factors)))
        yield order
        yield order[::-1]
