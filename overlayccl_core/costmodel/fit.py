"""Fit of theta: non-negative least squares on relative errors, with a test for columns the probes cannot tell
apart.

Rows are weighted by 1 / time, so a probe of 50 us counts as much as one of 50 ms: first by the measured time, then
by the predicted one (iteratively reweighted least squares). Weights with noise would favour rows short by chance,
and all prices would come out low. Columns are scaled to unit norm and held by a small ridge. Method: Lawson and
Hanson, Solving least squares problems (1974), chapter 23 (scipy.optimize.nnls). Intervals of theta by the residual
bootstrap (Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 9): times are changed by factors
drawn from the cross-validated residuals, so a column with few Programs keeps them. Intervals of predictions are the
quantiles of those residuals: theta's intervals say nothing of effects outside the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from overlayccl_core.costmodel.features import Feature, Features, Increment
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta

Floats = NDArray[np.float64]
INTERVAL = (0.025, 0.975)  # of theta
PREDICTION_INTERVAL = (0.10, 0.90)
TOLD_APART = 1e-2  # least distance of a column (of unit norm) to the span of the others
PASSES = 3  # of the reweighting
FARTHEST = 3.0  # bound on the reweighting of a row, up and down
BETTER = 0.97  # an increment must lower the cross-validated error to this part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """Settings of a fit.

    ridge: of the scaled problem. bootstraps: for theta's intervals. folds: of the cross-validation.
    """

    ridge: float = 0.02
    bootstraps: int = 200
    folds: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        if self.ridge < 0 or self.bootstraps < 2 or self.folds < 2:
            raise ValueError(
                "a fit needs a ridge of at least 0, 2 bootstraps and 2 folds "
                f"(got {self.ridge}, {self.bootstraps} and {self.folds})"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A timed Program. judges: its cross-validated residual counts, as of Programs like those to be priced."""

    features: Features
    time_us: float
    judges: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Theta, the increments kept, and the cross-validated measured / predicted of the judges."""

    theta: Theta
    increments: tuple[Increment, ...]
    residuals: Floats


def fit(observations: Sequence[Observation], settings: FitSettings, *, fingerprint: str = "") -> Fit:
    """Fit theta to timed Programs. ValueError for fewer judges than folds, or a time not positive."""
    judges = sum(o.judges for o in observations)
    if judges < settings.folds:
        raise ValueError(
            f"a fit needs at least {settings.folds} mixed and shape probes to judge it (got {judges}): "
            "run the probes again with more of them"
        )
    if bad := [o.time_us for o in observations if not o.time_us > 0]:
        raise ValueError(f"times must be positive (got {bad[0]} us): run the probes again")
    increments = _increments_that_help(observations, settings)
    system = _System(observations, increments, settings.ridge)
    residuals = system.cross_validated(settings)
    low, high = np.quantile(residuals, PREDICTION_INTERVAL)
    theta = Theta(_coefficients(system, residuals, settings), float(low), float(high), fingerprint)
    return Fit(theta=theta, increments=increments, residuals=residuals)


class _System:
    """The weighted least squares problem of some observations: x[rows, columns] / time, scaled columns."""

    def __init__(
        self, observations: Sequence[Observation], increments: Sequence[Increment], ridge: float
    ) -> None:
        wanted = (Increment.NONE, *increments)
        columns = {c for o in observations for c in o.features if c.increment in wanted}
        self.columns: list[Feature] = sorted(columns)
        index = {column: j for j, column in enumerate(self.columns)}
        x = np.zeros((len(observations), len(self.columns)))
        for i, o in enumerate(observations):
            for column, amount in o.features.items():
                if column in index:
                    x[i, index[column]] = amount / o.time_us
        self.uses = (x > 0).sum(axis=0)
        self.scale: Floats = np.linalg.norm(x, axis=0)
        self.scale[self.scale == 0] = 1.0
        self.x: Floats = x / self.scale
        self.judges = np.flatnonzero([o.judges for o in observations])
        self.ridge = ridge
        self.rows = np.arange(len(self.x))

    def solve(self, rows: NDArray[np.int64], factors: Floats | float = 1.0) -> Floats:
        """Return non-negative scaled coefficients from some rows, with their times multiplied by `factors`."""
        p = len(self.columns)
        seen = self.x[rows] / np.broadcast_to(factors, len(rows))[:, None]
        ridge = np.sqrt(self.ridge / len(self.x)) * np.eye(p)
        weight = np.ones(len(rows))
        solution: Floats = np.zeros(p)
        for _ in range(PASSES):
            a = np.vstack([seen * weight[:, None], ridge])
            solution = nnls(a, np.concatenate([weight, np.zeros(p)]), maxiter=30 * p)[0]
            weight = 1.0 / np.clip(seen @ solution, 1.0 / FARTHEST, FARTHEST)
        return solution

    def cross_validated(self, settings: FitSettings) -> Floats:
        """Return measured / predicted of every judge, predicted from the rows outside its fold."""
        shuffled = np.random.default_rng(settings.seed).permutation(self.judges)
        residuals = []
        for fold in np.array_split(shuffled, settings.folds):
            solution = self.solve(np.setdiff1d(self.rows, fold))
            predicted = self.x[fold] @ solution  # in units of the measured time
            residuals.append(1.0 / np.maximum(predicted, np.finfo(float).tiny))
        return np.concatenate(residuals)

    def error(self, settings: FitSettings) -> float:
        """Return the mean absolute log of measured / predicted, cross-validated."""
        return float(np.abs(np.log(self.cross_validated(settings))).mean())

    def told_apart(self) -> NDArray[np.bool_]:
        """Return a mask of the columns not (nearly) in the span of the others.

        The distance of a column to the span of the others is 1 / sqrt of the diagonal of the inverse Gram matrix;
        an unused column has none.
        """
        _, singular, v = np.linalg.svd(self.x, full_matrices=False)
        full = np.zeros(self.x.shape[1])
        full[: len(singular)] = singular
        v_full = np.vstack([v, np.zeros((len(full) - len(v), v.shape[1]))])
        tiny = np.finfo(float).eps * max(self.x.shape)
        weight = np.where(full > tiny, 1.0 / np.maximum(full, tiny), 1.0 / tiny)
        inverse_diagonal = ((v_full * weight[:, None]) ** 2).sum(axis=0)
        if len(v) < len(full):  # fewer rows than columns: the part beyond the rows
            inverse_diagonal += np.maximum(0.0, 1.0 - (v**2).sum(axis=0)) / tiny**2
        told: NDArray[np.bool_] = (1.0 / np.sqrt(inverse_diagonal) > TOLD_APART) & (self.uses > 0)
        return told


def _increments_that_help(
    observations: Sequence[Observation], settings: FitSettings
) -> tuple[Increment, ...]:
    """Take the optional sets of columns that lower the cross-validated error, if the probes tell them apart."""
    kept: tuple[Increment, ...] = ()
    system = _System(observations, kept, settings.ridge)
    best, unidentified = system.error(settings), int((~system.told_apart()).sum())
    counted = {c.increment for o in observations for c in o.features}
    for increment in (i for i in Increment if i is not Increment.NONE and i in counted):
        system = _System(observations, (*kept, increment), settings.ridge)
        if (~system.told_apart()).sum() > unidentified:
            continue
        error = system.error(settings)
        if error < BETTER * best:
            kept, best = (*kept, increment), error
    return kept


def _coefficients(system: _System, residuals: Floats, settings: FitSettings) -> tuple[Coefficient, ...]:
    rng = np.random.default_rng(settings.seed)
    values = system.solve(system.rows) / system.scale
    factors = rng.choice(residuals / np.median(residuals), (settings.bootstraps, len(system.rows)))
    low, high = np.quantile([system.solve(system.rows, f) / system.scale for f in factors], INTERVAL, axis=0)
    told = system.told_apart()
    coefficients = []
    for j, column in enumerate(system.columns):
        fitted = FitStatus.FITTED if values[j] > 0 else FitStatus.ZERO
        status = fitted if told[j] else FitStatus.UNIDENTIFIED
        known = status is not FitStatus.UNIDENTIFIED
        coefficients.append(
            Coefficient(
                column=column,
                value=float(values[j]) if known else None,
                low=float(min(low[j], values[j])) if known else None,
                high=float(max(high[j], values[j])) if known else None,
                status=status,
                programs=int(system.uses[j]),
            )
        )
    return tuple(coefficients)
