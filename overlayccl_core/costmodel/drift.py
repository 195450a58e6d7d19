"""How far theta's groups of columns have moved, from probes that were timed again.

A group of columns has one factor: the counts, or the bytes, of a kind of collective and its reach; local work; any
other column. With factors of 1 a probe takes its old time exactly, so what theta never got right is no drift. The
factors are the non-negative least squares solution on relative errors, drawn to 1 by a ridge: a group that no probe
tells apart has not moved. Intervals are by the Bayesian bootstrap over the probes (Rubin, The Bayesian bootstrap,
1981): every probe keeps a weight, so a group of three probes never loses all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from overlayccl_core.costmodel.features import Feature, Features, Term
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.measuring.statistics import CONFIDENCE, Ratio

Floats = NDArray[np.float64]
RIDGE = 0.002  # on (factor - 1), beside rows that are shares of a time
DRAWS = 200
PARTS_OF_COLLECTIVE = 4  # all_reduce.node4.alone.count
LOCAL, MIXED = "local", "mixed"


def kinds_of(counted: Features) -> frozenset[str]:
    """Return the kinds of collective in a Program, each with its reach: `all_reduce.node4`."""
    return frozenset(_kind(c) for c in counted if _is_collective(c))


def kind_of(counted: Features) -> str:
    """Return the only kind of collective in a Program, LOCAL or MIXED."""
    kinds = kinds_of(counted)
    return LOCAL if not kinds else MIXED if len(kinds) > 1 else next(iter(kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retimed:
    """A probe with its time then and now, in us."""

    features: Features
    old_us: float
    new_us: float


class Drift:
    """Factors of theta's groups, and prices scaled by them."""

    def __init__(self, theta: Theta, retimed: Sequence[Retimed], *, seed: int = 0) -> None:
        """Solve for the factors. Every probe needs a price above 0."""
        self._theta = theta
        self.groups = sorted({_group(c) for one in retimed for c in one.features if c in theta.values})
        parts = np.array([self._parts(one.features) for one in retimed])
        to_new = [one.old_us / sum(row) / one.new_us for one, row in zip(retimed, parts, strict=True)]
        shares = parts * np.array(to_new)[:, None]  # of the new time
        weights = np.random.default_rng(seed).exponential(size=(DRAWS, len(retimed)))
        self._factors = _solved(shares, np.ones(len(retimed)))
        self._drawn = np.array([_solved(shares, one) for one in weights])

    @property
    def factors(self) -> dict[str, float]:
        """Group -> how many times as dear as it was."""
        return dict(zip(self.groups, self._factors.tolist(), strict=False))

    def of(self, counted: Features) -> float:
        """Return how many times as dear a Program became."""
        parts = self._parts(counted)
        return float(parts @ self._factors / parts.sum())

    def of_ratio(self, numerator: Features, denominator: Features) -> Ratio:
        """Return how many times as large the ratio of two prices became."""
        mine, other = self._parts(numerator), self._parts(denominator)
        drawn = (self._drawn @ mine / mine.sum()) / (self._drawn @ other / other.sum())
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        value = self.of(numerator) / self.of(denominator)
        return Ratio(value=value, low=min(float(low), value), high=max(float(high), value))

    def _parts(self, counted: Features) -> Floats:
        """Return the parts of a price by group [groups + 1]; the last is of columns in no re-timed probe."""
        index = {group: j for j, group in enumerate(self.groups)}
        parts = np.zeros(len(index) + 1)
        for column, amount in counted.items():
            parts[index.get(_group(column), -1)] += amount * self._theta.values.get(column, 0.0)
        return parts


def _solved(shares: Floats, weights: Floats) -> Floats:
    """Return a factor for each column of shares [probes, groups + 1]."""
    root, ridge = np.sqrt(weights), np.sqrt(RIDGE)
    rows = np.vstack([shares * root[:, None], ridge * np.eye(shares.shape[1])])
    return np.asarray(nnls(rows, np.concatenate([root, np.full(shares.shape[1], ridge)]))[0])


def _is_collective(column: Feature) -> bool:
    return column.name.count(".") == PARTS_OF_COLLECTIVE - 1


def _kind(column: Feature) -> str:
    return ".".join(column.name.split(".")[:2])


def _group(column: Feature) -> str:
    if _is_collective(column):
        return f"{_kind(column)}.{column.name.rpartition('.')[2]}"
    return LOCAL if column.term is Term.COPIES else column.name
