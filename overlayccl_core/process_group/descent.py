"""Which of many proven ways of one call is the fastest: coordinate descent, on times of calls in pairs.

A way is a point of two subspaces, as in AutoCCL (NSDI 2025): its *family* (which calls it is made of) and its
*parts* (into how many calls in flight it is split). Each family is looked at once, and within a family parts go up
and down from where they begin for as long as the ratio to the best falls. A pair is as many calls as a training
step has in the best way, and as many in the way on trial. Torch is not needed here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean, median, stdev
from typing import NamedTuple

FEWEST, MOST = 6, 60  # pairs: a verdict needs the first; after the second the best stays
MOST_OF_FASTER = 180  # pairs of a way that looks FASTER, though not beyond noise
CONFIDENCE = 0.99  # of an interval: there are many looks
SURE = 0.998  # of an interval beside the way that the call begins in: of equal ways it stays
FASTER = 1.02  # times as fast: less is not worth more pairs
FUTILE = 1.1, 16  # times as slow, after so many pairs: more would not make it the faster one
HOPELESS = 1.5  # times as slow as the best: other parts of this family are not tried


class TunedArm(NamedTuple):
    """A proven way of a call: its name in the module, its family, its parts."""

    way: str
    family: str
    parts: int


@dataclass(frozen=True, slots=True)
class ArmTrial:
    """A way beside the best one then. ratio: its time over the best's, with its interval."""

    arm: TunedArm
    best: TunedArm
    pairs: int
    low: float
    ratio: float
    high: float

    @property
    def is_better(self) -> bool:
        """Whether it is faster beyond noise."""
        return self.high < 1

    @property
    def is_over(self) -> bool:
        """Whether more pairs would tell no more that counts."""
        told = self.is_better or self.low > 1 / FASTER or (self.ratio > FUTILE[0] and self.pairs >= FUTILE[1])
        most = MOST_OF_FASTER if self.ratio < 1 / FASTER else MOST
        return self.pairs >= most or (self.pairs >= FEWEST and told)


@dataclass(slots=True)
class Descent:
    """The search of one call.

    Attributes:
        arms: All ways; families in the order in which they are tried.
        best: The fastest so far; it begins as the way that the call is made in now.
        trial: On trial beside it; None: all is known.
        trials: Those that are over.
        known: Those of a run before, which began as this one: they are not made again.
    """

    arms: Sequence[TunedArm]
    best: TunedArm
    trial: TunedArm | None = None
    trials: list[ArmTrial] = field(default_factory=list)
    known: Sequence[ArmTrial] = ()
    _pairs: list[float] = field(default_factory=list)
    _next: "Iterator[TunedArm] | None" = None
    _first: TunedArm | None = None

    def __post_init__(self) -> None:
        self._next, self._first = self._walk(), self.best
        self._advance()

    def feed(self, pairs: Sequence[tuple[float, float]]) -> ArmTrial | None:
        """Add times, (best, trial) each; return the trial if it is over now."""
        if self.trial is None:
            return None
        self._pairs += [math.log(trial / best) for best, trial in pairs]
        sure = SURE if self.best is self._first else CONFIDENCE
        trial = ArmTrial(self.trial, self.best, len(self._pairs), *interval(self._pairs, sure))
        if not trial.is_over:
            return None
        self._pairs = []
        self._note(trial)
        self._advance()
        return trial

    def _note(self, trial: ArmTrial) -> None:
        self.trials.append(trial)
        if trial.is_better:
            self.best = trial.arm

    def _advance(self) -> None:
        """Go on to the next way of which nothing is known."""
        assert self._next is not None
        before = {(one.arm, one.best): one for one in self.known}
        while (trial := next(self._next, None)) is not None and (trial, self.best) in before:
            self._note(before[trial, self.best])
        self.trial = trial

    def _walk(self) -> Iterator[TunedArm]:
        """Yield what is tried, one after the other; between two the verdict on the first is in `trials`."""
        families = dict.fromkeys((self.best.family, *(arm.family for arm in self.arms)))
        for family in families:
            ladder = sorted((arm for arm in self.arms if arm.family == family), key=lambda arm: arm.parts)
            if self.best in ladder:
                at, here = ladder.index(self.best), 1.0
            else:
                at = 0
                yield ladder[0]
                if self.trials[-1].ratio > HOPELESS:
                    continue
                here = 1.0 if self.trials[-1].is_better else self.trials[-1].ratio
            for steps in (ladder[at + 1 :], ladder[:at][::-1]):
                for arm in steps:
                    best = self.best
                    yield arm
                    ratio = self.trials[-1].ratio
                    if ratio >= here and not self.trials[-1].is_better:
                        break
                    here = 1.0 if self.best is not best else ratio  # over the best of now


def interval(logs: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Return (low, ratio, high): the mean of logarithms of ratios, with Student's interval."""
    freedom, middle = len(logs) - 1, fmean(logs)
    if freedom < 1:
        return 0.0, math.exp(middle), math.inf
    half = _student(freedom, confidence) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle - half), math.exp(middle), math.exp(middle + half)


def _student(freedom: int, confidence: float) -> float:
    """Return the quantile of Student's distribution, by the first terms of Abramowitz and Stegun 26.7.5."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


@dataclass(slots=True)
class Watch:
    """Whether a call's times have changed since they were known: a two-sided CUSUM of logarithms of block medians.

    The first LEARNED blocks say what is usual. Each later one counts as many spreads as it is off, at most LARGEST;
    what is beyond SLACK adds up on its side, until LIMIT: eight blocks that are far off, or more that are less so.
    """

    BLOCK = 4  # steps: a late one does not move its median
    LEARNED = 8
    LEAST_SPREAD = 0.15  # of a usual time: what is less is no change that counts
    SLACK = 1.0
    LARGEST = 3.0
    LIMIT = 15.5

    block: list[float] = field(default_factory=list)
    usual: list[float] = field(default_factory=list)
    latest_s: float | None = None  # the median of the last block
    above: float = 0.0
    below: float = 0.0

    def feed(self, seconds: float) -> bool:
        """Add a time; return whether times have changed."""
        self.block.append(math.log(seconds))
        if len(self.block) < self.BLOCK:
            return False
        log, self.block = median(self.block), []
        self.latest_s = math.exp(log)
        if len(self.usual) < self.LEARNED:
            self.usual.append(log)
            return False
        middle = median(self.usual)
        spread = max(1.4826 * median([abs(x - middle) for x in self.usual]), self.LEAST_SPREAD)
        off = max(-self.LARGEST, min((log - middle) / spread, self.LARGEST))
        self.above = max(0.0, self.above + off - self.SLACK)
        self.below = max(0.0, self.below - off - self.SLACK)
        return max(self.above, self.below) > self.LIMIT
