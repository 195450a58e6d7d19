"""Accuracy of the model: predictions against samples, beside the repeatability of the samples themselves."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.measuring import statistics

Floats = NDArray[np.float64]
STANDARD_ERRORS = 2.0  # two Programs further apart can be told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A Program's predicted time and its samples, one a round."""

    predicted_us: float
    samples_us: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Figures of n Programs; None if they have no meaning (an order of fewer than 3, no pair apart).

    Attributes:
        pair_accuracy: Share of the `pairs` pairs, over two standard errors apart, predicted in the right order.
        repeat_pair_accuracy: Share of them in one order by even and by odd rounds.
        top1_regret: Measured time of the model's first choice over the fastest possible choice's, less 1.
        top1_within_noise: Whether their paired ratio cannot be told from 1 (None: too few rounds to say).
        residual_low, residual_high: 10% and 90% quantiles of measured / predicted.
    """

    n: int
    rounds: int
    spearman: float | None
    kendall: float | None
    median_rel_error: float
    pair_accuracy: float | None
    repeat_pair_accuracy: float | None
    pairs: int
    top1_regret: float | None
    top1_within_noise: bool | None
    repeat_spearman: float | None  # even against odd rounds: two measurements with half of the rounds each
    repeat_rel_error: float  # the error from noise alone (`statistics.repeat_error`)
    residual_low: float
    residual_high: float

    def to_row(self) -> dict[str, Any]:
        """Return these columns of the table `fidelity`."""
        return asdict(self)


def fidelity(
    scored: Sequence[Scored], *, first: tuple[Sequence[float], Sequence[float]] | None = None
) -> Fidelity:
    """Return the figures of Programs timed in one batch.

    Args:
        first: Samples of the model's first choice, and of the fastest it could have chosen; None: it has none.

    Raises:
        ValueError: There is no Program, or one has fewer than 2 rounds.
    """
    if not scored:
        raise ValueError("fidelity needs at least one measured Program that has a price (got none)")
    if (fewest := min(len(s.samples_us) for s in scored)) < 2:
        raise ValueError(
            f"fidelity needs at least 2 rounds (got {fewest}): give the measurement more seconds"
        )
    estimates = [statistics.estimate(s.samples_us) for s in scored]
    measured = np.array([e.value for e in estimates])
    errors = np.array([e.standard_error for e in estimates])
    predicted = np.array([s.predicted_us for s in scored])
    regret, within = top1(*first) if first else (None, None)
    even, odd = np.array([statistics.halves(s.samples_us) for s in scored]).T
    apart = pairs_apart(measured, errors)
    low, high = np.quantile(measured / predicted, [0.10, 0.90])
    return Fidelity(
        n=len(scored),
        rounds=min(e.rounds for e in estimates),
        spearman=_order("spearmanr", measured, predicted),
        kendall=_order("kendalltau", measured, predicted),
        median_rel_error=float(np.median(np.abs(predicted - measured) / measured)),
        pair_accuracy=in_order(apart, measured, predicted),
        repeat_pair_accuracy=in_order(apart, even, odd),
        pairs=len(apart),
        top1_regret=regret,
        top1_within_noise=within,
        repeat_spearman=_order("spearmanr", even, odd),
        repeat_rel_error=statistics.repeat_error(s.samples_us for s in scored),
        residual_low=float(low),
        residual_high=float(high),
    )


def pairs_apart(measured: Floats, errors: Floats) -> NDArray[np.int64]:
    """Return the pairs over two standard errors apart: int64[pairs, 2], places in `measured`."""
    i, j = np.triu_indices(len(measured), 1)
    apart = np.abs(measured[i] - measured[j]) > STANDARD_ERRORS * np.hypot(errors[i], errors[j])
    return np.stack([i[apart], j[apart]], axis=1)


def in_order(pairs: NDArray[np.int64], a: Floats, b: Floats) -> float | None:
    """Return the share of pairs with one order by a and by b; None without pairs."""
    if not len(pairs):
        return None
    i, j = pairs.T
    return float((np.sign(a[i] - a[j]) == np.sign(b[i] - b[j])).mean())


def order_apart(scored: Sequence[Scored]) -> float | None:
    """Return Spearman's rank correlation over pairs that can be told apart; None for fewer than 3 Programs.

    The rank of a Program counts those that it can be told apart from: with all of them it is Spearman's.
    """
    estimates = [statistics.estimate(s.samples_us) for s in scored]
    measured = np.array([e.value for e in estimates])
    errors = np.array([e.standard_error for e in estimates])
    predicted = np.array([s.predicted_us for s in scored])
    difference = measured[:, None] - measured
    apart = np.abs(difference) > STANDARD_ERRORS * np.hypot(errors[:, None], errors)
    ranks = [(np.sign(d) * apart).sum(axis=1) for d in (difference, predicted[:, None] - predicted)]
    if len(scored) < 3 or any(np.ptp(one) == 0 for one in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def top1(mine: Sequence[float], fastest: Sequence[float]) -> tuple[float, bool | None]:
    """Return (regret of a Program, whether the 95% interval of its paired ratio to the fastest holds 1).

    mine, fastest: samples of the same rounds; surplus samples of one are from another time and do not count. None
    for too few rounds for an interval.
    """
    both = min(len(mine), len(fastest))
    mine, fastest = mine[:both], fastest[:both]
    ratio = statistics.paired_ratio([(mine, fastest)])
    regret = statistics.estimate(mine).value / statistics.estimate(fastest).value - 1
    if regret <= 0:
        return regret, True
    return regret, None if ratio.low is None else ratio.low <= 1


def _order(correlation: str, a: Floats, b: Floats) -> float | None:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    from scipy import stats  # 0.9 s of CPU, not spent for other figures

    return float(getattr(stats, correlation)(a, b).statistic)
