"""Statistics of repeated timings: estimates, their errors, and ratios of paired samples.

The estimate of a time is the 25% trimmed mean over rounds, its error a bootstrap over rounds. Of what was
tried on repeated batches (mean, median, minimum, trimmed mean) it repeats best: timings have a long upper
tail, which the mean follows, and the minimum is the luck of one round. Ratios are of medians of PAIRED
samples, taken in the same rounds of one launch: what disturbs a launch disturbs all that runs in it. Launches
differ by more than the rounds of one, so an interval over fewer than three of them allows for another launch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

TRIM = 0.25
RESAMPLES = 400
CONFIDENCE = 0.95
FEWEST_ROUNDS = 6  # of fewer, all may lie on one side of the median by chance (2 in 2^5)
FEWEST_LAUNCHES = 3  # from which on launches are what an interval is over
FEWEST_SEEDS = 5  # of a search, from which on they are
BETWEEN_LAUNCHES = 0.2  # by which a ratio of fewer may be off (docs/measuring.md, where it comes from)
FASTER, NOT_SLOWER, SLOWER = 1.02, 0.95, 0.98  # bounds of a ratio old over new


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A time with its standard error, in the unit of the samples, and the rounds it comes from."""

    value: float
    standard_error: float
    rounds: int

    def interval(self) -> tuple[float, float]:
        """The normal 95% interval, never below 0."""
        half = 1.96 * self.standard_error
        return max(self.value - half, 0.0), self.value + half


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio of paired medians (old over new: 2 is twice as fast) with its 95% interval; None: too few rounds."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def beyond_noise(self) -> bool:
        """Faster beyond noise: the whole interval lies above 1.02."""
        return self.low is not None and self.low > FASTER

    @property
    def not_slower(self) -> bool:
        """The low end of the interval is at least 0.95."""
        return self.low is not None and self.low >= NOT_SLOWER

    @property
    def slower(self) -> bool:
        """Slower beyond noise: the whole interval lies below 0.98."""
        return self.high is not None and self.high < SLOWER

    @property
    def word(self) -> str:
        """faster, not slower, slower, or undecided."""
        if self.beyond_noise:
            return "faster"
        if self.slower:
            return "slower"
        return "not slower" if self.not_slower else "undecided"

    def text(self, unit: str = "") -> str:
        """`6.21 (5.90..6.60)`, `1.29 (too few rounds)`; unit: what stands behind the value."""
        unknown = self.low is None or self.high is None
        interval = "too few rounds" if unknown else f"{self.low:.2f}..{self.high:.2f}"
        return f"{self.value:.2f}{unit} ({interval})"

    def __str__(self) -> str:
        return self.text()


def trimmed_mean(samples: ArrayLike, cut: float = TRIM) -> Floats | float:
    """Mean over the last axis without the `cut` smallest and the `cut` largest part of it.

    [..., rounds] -> [...]; of n samples, int(cut * n) are left out at each end, so that up to 3 none are.
    ValueError without samples.
    """
    values = np.sort(np.asarray(samples, np.float64), axis=-1)
    rounds = values.shape[-1] if values.ndim else 0
    if rounds == 0:
        raise ValueError(
            "a trimmed mean needs at least one sample (got none): time the Program for at least one round"
        )
    out = int(cut * rounds)
    means = values[..., out : rounds - out].mean(axis=-1)
    return float(means) if values.ndim == 1 else means


def bootstrap(samples: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Trimmed means of `resamples` resamplings of the rounds with replacement: [rounds] -> [resamples]."""
    values = np.asarray(samples, np.float64)
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(values), (resamples, len(values)))
    return np.asarray(trimmed_mean(values[chosen]))


def estimate(samples: ArrayLike, *, seed: int = 0) -> Estimate:
    """The trimmed mean over rounds with its bootstrap standard error (not a number for a single round)."""
    values = np.asarray(samples, np.float64)
    error = float(bootstrap(values, seed=seed).std(ddof=1)) if len(values) > 1 else float("nan")
    return Estimate(value=float(trimmed_mean(values)), standard_error=error, rounds=len(values))


def halves(samples: ArrayLike) -> tuple[float, float]:
    """Estimates from the even and from the odd rounds; ValueError for fewer than 2 rounds."""
    values = np.asarray(samples, np.float64)
    if len(values) < 2:
        raise ValueError(f"even and odd rounds need at least 2 rounds (got {len(values)}): give more seconds")
    return float(trimmed_mean(values[::2])), float(trimmed_mean(values[1::2]))


def relative_difference(a: float, b: float) -> float:
    """|a - b| over their mean."""
    return abs(a - b) / ((a + b) / 2)


def repeat_error(batch: Iterable[ArrayLike]) -> float:
    """By how much noise alone makes a time wrong, relative: [rounds] of each Program; the median over Programs.

    It is half of the difference between even and odd rounds. Of independent rounds that has the spread of the
    estimate from all of them: two halves differ by twice as much. Programs of a single round say nothing and are
    left out; not a number if all are. No model of the times can be asked to be closer than this.
    """
    errors = [relative_difference(*halves(s)) / 2 for s in map(np.asarray, batch) if len(s) >= 2]
    return float(np.median(errors)) if errors else float("nan")


def repeat_error_between(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> float:
    """The same of a launch, by two of the same Programs in the same order: their difference over the root of 2."""
    pairs = zip(first, second, strict=True)
    differences = [relative_difference(estimate(a).value, estimate(b).value) for a, b in pairs]
    return float(np.median(differences) / np.sqrt(2))


Launches = Mapping[Any, Sequence[float]]
"""launch -> its samples, one a round, from the first round on."""


def common_launches(
    numerator: Launches, denominator: Launches
) -> list[tuple[Sequence[float], Sequence[float]]]:
    """(numerator's, denominator's samples) of the launches that both ran in, in order: of the rounds of both.

    What is slow is timed in the first rounds of a launch only.
    """
    both = sorted(set(numerator) & set(denominator))
    common = ((launch, min(len(numerator[launch]), len(denominator[launch]))) for launch in both)
    return [(numerator[launch][:n], denominator[launch][:n]) for launch, n in common if n]


def ratio_over_launches(numerator: Launches, denominator: Launches) -> Ratio | None:
    """The paired ratio over the common launches; None without any."""
    common = common_launches(numerator, denominator)
    return paired_ratio(common) if common else None


def paired_ratio(
    launches: Sequence[tuple[ArrayLike, ArrayLike]], *, resamples: int = RESAMPLES, seed: int = 0
) -> Ratio:
    """Ratio of numerator to denominator: (numerator[rounds], denominator[rounds]) of every launch.

    Both sides of a launch are samples of the same rounds. The value is the median over launches. From 3 launches
    on the interval is Student's, of the logarithms of their ratios. With fewer it is a bootstrap over rounds,
    widened by what another launch could bring, that holds what each launch said; there is none below 6 rounds.
    ValueError where the sides differ in rounds.
    """
    sides = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in launches]
    if not sides or any(len(a) != len(b) or len(a) == 0 for a, b in sides):
        rounds = [(len(a), len(b)) for a, b in sides]
        raise ValueError(
            f"paired samples come from the same rounds (got {rounds} rounds): compare within a launch"
        )
    each = np.array([np.median(a) / np.median(b) for a, b in sides])
    value = float(np.median(each))
    if len(sides) >= FEWEST_LAUNCHES:
        low, high = _over_launches(np.log(each))
    elif sum(len(a) for a, _ in sides) < FEWEST_ROUNDS:
        return Ratio(value=value)
    else:
        random = np.random.default_rng(seed)
        ratios = np.median([_ratios(a, b, resamples, random) for a, b in sides], axis=0)
        low, high = _of_any_launch(value, np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
        low, high = min(low, each.min()), max(high, each.max())
    return Ratio(value=value, low=min(float(low), value), high=max(float(high), value))


def ratio_within(
    numerator: ArrayLike, denominator: ArrayLike, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Ratio:
    """Ratio of the medians of paired samples [rounds] of ONE launch, with a bootstrap over its rounds.

    What runs in one launch is compared by it. It says nothing of another launch (`paired_ratio` does). Below 6
    rounds there is no interval.
    """
    a, b = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    value = float(np.median(a) / np.median(b))
    if len(a) < FEWEST_ROUNDS:
        return Ratio(value=value)
    ratios = _ratios(a, b, RESAMPLES, np.random.default_rng(seed))
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Ratio(value=value, low=min(float(low), value), high=max(float(high), value))


def over_seeds(ratios: ArrayLike) -> Ratio:
    """What a search comes to, of its ratios to the best [seeds]: their median, with Student's interval of the
    logarithms, which ends at 1, as they do.

    Seeds are all that it is over: it holds for other seeds of the same search at the same places, not for others.
    There is none below 5 seeds.
    """
    each = np.asarray(ratios, np.float64)
    value = float(np.median(each))
    if len(each) < FEWEST_SEEDS:
        return Ratio(value=value)
    low, high = _over_launches(np.log(each))
    return Ratio(value=value, low=max(1.0, min(low, value)), high=max(high, value))


def _of_any_launch(value: float, ends: Floats) -> tuple[float, float]:
    """The interval over rounds, [low, high], with what launches differ by: independent errors add in squares."""
    below, above = np.hypot(np.log(value / ends), BETWEEN_LAUNCHES)
    return float(value * np.exp(-below)), float(value * np.exp(above))


def _over_launches(logs: Floats) -> tuple[float, float]:
    """Student's interval, of the logarithms of ratios: [launches or seeds] -> (low, high) of the ratio."""
    from scipy.special import stdtrit  # only who compares launches or seeds waits for it

    half = stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2) * logs.std(ddof=1) / len(logs) ** 0.5
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def _ratios(a: Floats, b: Floats, resamples: int, random: np.random.Generator) -> Floats:
    """[resamples]: ratios of medians, both sides resampled by the same rounds."""
    chosen = random.integers(0, len(a), (resamples, len(a)))
    ratios: Floats = np.median(a[chosen], axis=1) / np.median(b[chosen], axis=1)
    return ratios
