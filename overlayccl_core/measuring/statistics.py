"""Statistics of repeated timings: estimates, their errors, and ratios of paired samples.

The estimate of a time is the 25% trimmed mean over rounds, its error a bootstrap over rounds. Among the estimates
tried on repeated batches (mean, median, minimum, trimmed mean) it repeats best: timings have a long upper tail,
followed by the mean, and the minimum is the luck of one round. Ratios are of medians of PAIRED samples, from the
same rounds of one launch: a disturbance of a launch hits everything in it. Launches differ more than the rounds of
one, so an interval over fewer than three of them allows for another launch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

TRIM = 0.25
RESAMPLES = 400
CONFIDENCE = 0.95
FEWEST_ROUNDS = 6  # fewer may all lie on one side of the median by chance (2 in 2^5)
FEWEST_LAUNCHES = 3  # fewest for an interval over launches
FEWEST_SEEDS = 5  # fewest for an interval over seeds of a search
OF_SEEDS = 0.9375  # confidence of that interval, at least: all that five seeds can give
BETWEEN_LAUNCHES = 0.2  # error of a ratio of fewer (source: docs/measuring.md)
FASTER, NOT_SLOWER, SLOWER = 1.02, 0.95, 0.98  # bounds of a ratio old over new


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A time with its standard error, in the unit of the samples, and its number of rounds."""

    value: float
    standard_error: float
    rounds: int

    def interval(self) -> tuple[float, float]:
        """Return the normal 95% interval, never below 0."""
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
        if self.beyond_noise:
            return "faster"
        if self.slower:
            return "slower"
        return "not slower" if self.not_slower else "undecided"

    def text(self, unit: str = "") -> str:
        """Return `6.21 (5.90..6.60)` or `1.29 (too few rounds)`; `unit` follows the value."""
        unknown = self.low is None or self.high is None
        interval = "too few rounds" if unknown else f"{self.low:.2f}..{self.high:.2f}"
        return f"{self.value:.2f}{unit} ({interval})"

    def __str__(self) -> str:
        return self.text()


def trimmed_mean(samples: ArrayLike, cut: float = TRIM) -> Floats | float:
    """Return the mean over the last axis without its `cut` smallest and `cut` largest part.

    [..., rounds] -> [...]; of n samples, int(cut * n) are left out at each end: none of up to 3. ValueError without
    samples.
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
    """Return trimmed means of `resamples` resamplings of the rounds with replacement: [rounds] -> [resamples]."""
    values = np.asarray(samples, np.float64)
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(values), (resamples, len(values)))
    return np.asarray(trimmed_mean(values[chosen]))


def estimate(samples: ArrayLike, *, seed: int = 0) -> Estimate:
    """Return the trimmed mean over rounds with its bootstrap standard error (not a number for a single round)."""
    values = np.asarray(samples, np.float64)
    error = float(bootstrap(values, seed=seed).std(ddof=1)) if len(values) > 1 else float("nan")
    return Estimate(value=float(trimmed_mean(values)), standard_error=error, rounds=len(values))


def halves(samples: ArrayLike) -> tuple[float, float]:
    """Return estimates from the even and from the odd rounds; ValueError for fewer than 2 rounds."""
    values = np.asarray(samples, np.float64)
    if len(values) < 2:
        raise ValueError(f"even and odd rounds need at least 2 rounds (got {len(values)}): give more seconds")
    return float(trimmed_mean(values[::2])), float(trimmed_mean(values[1::2]))


def relative_difference(a: float, b: float) -> float:
    return abs(a - b) / ((a + b) / 2)


def repeat_error(batch: Iterable[ArrayLike]) -> float:
    """Return a time's relative error from noise alone: [rounds] of each Program; the median over Programs.

    It is half of the difference between even and odd rounds. For independent rounds it has the spread of the
    estimate from all of them: two halves differ by twice as much. Programs of a single round say nothing and are
    left out; not a number if all are. No model of the times can be asked for a smaller error.
    """
    errors = [relative_difference(*halves(s)) / 2 for s in map(np.asarray, batch) if len(s) >= 2]
    return float(np.median(errors)) if errors else float("nan")


def repeat_error_between(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> float:
    """Return the same for two launches of the same Programs, in one order: their difference over the root of 2."""
    pairs = zip(first, second, strict=True)
    differences = [relative_difference(estimate(a).value, estimate(b).value) for a, b in pairs]
    return float(np.median(differences) / np.sqrt(2))


Launches = Mapping[Any, Sequence[float]]
"""launch -> its samples, one a round, from the first round on."""


def common_launches(
    numerator: Launches, denominator: Launches
) -> list[tuple[Sequence[float], Sequence[float]]]:
    """Return (numerator's, denominator's samples) of each common launch, in order, for its common rounds.

    Slow Programs are timed in the first rounds of a launch only.
    """
    both = sorted(set(numerator) & set(denominator))
    common = ((launch, min(len(numerator[launch]), len(denominator[launch]))) for launch in both)
    return [(numerator[launch][:n], denominator[launch][:n]) for launch, n in common if n]


def ratio_over_launches(numerator: Launches, denominator: Launches) -> Ratio | None:
    """Return the paired ratio over the common launches; None without any."""
    common = common_launches(numerator, denominator)
    return paired_ratio(common) if common else None


def paired_ratio(
    launches: Sequence[tuple[ArrayLike, ArrayLike]], *, resamples: int = RESAMPLES, seed: int = 0
) -> Ratio:
    """Return the ratio of numerator to denominator, from (numerator[rounds], denominator[rounds]) of every launch.

    Both sides of a launch are samples of the same rounds. The value is the median over launches. From 3 launches on
    the interval is Student's, of the logarithms of their ratios. With fewer it is a bootstrap over rounds, widened
    for another launch, and holds the ratio of each launch; below 6 rounds there is none.

    Raises:
        ValueError: The sides differ in rounds, or there is no launch.
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
    """Return the ratio of medians of paired samples [rounds] of ONE launch, with a bootstrap over its rounds.

    It compares within one launch and says nothing of another (`paired_ratio` does). Below 6 rounds there is no
    interval.
    """
    a, b = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    value = float(np.median(a) / np.median(b))
    if len(a) < FEWEST_ROUNDS:
        return Ratio(value=value)
    ratios = _ratios(a, b, RESAMPLES, np.random.default_rng(seed))
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Ratio(value=value, low=min(float(low), value), high=max(float(high), value))


def over_launches(each: ArrayLike) -> Ratio:
    """Return the median of a figure of each launch [launches], with Student's interval; none below 3 launches."""
    values = np.asarray(each, np.float64)
    value = float(np.median(values))
    if len(values) < FEWEST_LAUNCHES:
        return Ratio(value=value)
    low, high = _student(values)
    return Ratio(value=value, low=min(low, value), high=max(high, value))


def geometric_mean(logs: ArrayLike) -> Ratio:
    """Return the mean of the logarithms of a ratio of each launch [launches], as a ratio with Student's interval.

    Means of sums are sums of means, those of medians are not. There is no interval below 3 launches.
    """
    values = np.asarray(logs, np.float64)
    value = float(np.exp(values.mean()))
    if len(values) < FEWEST_LAUNCHES:
        return Ratio(value=value)
    low, high = _over_launches(values)
    return Ratio(value=value, low=low, high=high)


def over_seeds(ratios: ArrayLike) -> Ratio:
    """Return the median of a figure of a search [seeds], with an exact interval; infinity: never.

    The interval goes from one order statistic to another, the narrowest pair that holds the median of all seeds
    with at least 93.75%, whatever the distribution: of five to eight seeds it is the least and the most. Normal
    distributions are none of ours: of few seeds most end alike and one far off. It holds for other seeds of the
    same search at the same places, not for other places. There is none below 5 seeds. (Conover, 1999, 3.2.)
    """
    each = np.sort(np.asarray(ratios, np.float64))
    n = len(each)
    value = float(np.median(each))
    if n < FEWEST_SEEDS:
        return Ratio(value=value)
    outside = np.cumsum([comb(n, k) / 2**n for k in range(n)])  # the median is below the k-th least of all
    k = int(np.searchsorted(outside, (1 - OF_SEEDS) / 2, "right")) - 1
    return Ratio(value=value, low=float(each[k]), high=float(each[n - 1 - k]))


def _of_any_launch(value: float, ends: Floats) -> tuple[float, float]:
    """Widen the interval over rounds [low, high] by how much launches differ: independent errors add in squares."""
    below, above = np.hypot(np.log(value / ends), BETWEEN_LAUNCHES)
    return float(value * np.exp(-below)), float(value * np.exp(above))


def _over_launches(logs: Floats) -> tuple[float, float]:
    """Return Student's interval, of the logarithms of ratios: [launches or seeds] -> (low, high) of the ratio."""
    low, high = _student(logs)
    return float(np.exp(low)), float(np.exp(high))


def _student(values: Floats) -> tuple[float, float]:
    """Return Student's interval of the mean: [values] -> (low, high)."""
    from scipy.special import stdtrit  # slow to import, needed for launches and seeds only

    half = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean() - half), float(values.mean() + half)


def _ratios(a: Floats, b: Floats, resamples: int, random: np.random.Generator) -> Floats:
    """[resamples]: ratios of medians, both sides resampled by the same rounds."""
    chosen = random.integers(0, len(a), (resamples, len(a)))
    ratios: Floats = np.median(a[chosen], axis=1) / np.median(b[chosen], axis=1)
    return ratios
