"""Theta: the coefficients of the cost model, each with its unit, its interval and its evidence."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from overlayccl_core.costmodel.features import Feature, Features, Increment, Term


class FitStatus(StrEnum):
    """Strength of the probes' evidence for a coefficient."""

    FITTED = "fitted"
    ZERO = "zero"
    UNIDENTIFIED = "unidentified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """One column's cost in its unit, with the 95% bootstrap interval; no value if it is unidentified."""

    column: Feature
    value: float | None
    low: float | None
    high: float | None
    status: FitStatus
    programs: int  # number of fitted Programs with the column

    def __post_init__(self) -> None:
        if (self.value is None) != (self.status is FitStatus.UNIDENTIFIED):
            raise ValueError(
                f"{self.column.name}: only an unidentified coefficient has no value (got {self.value})"
            )


@dataclass(frozen=True)
class Theta:
    """All coefficients of a deployment, and the spread of predictions.

    Attributes:
        residual_low, residual_high: The 10% and 90% quantiles of measured / predicted, over Programs outside the
            fit behind their prediction.
    """

    coefficients: tuple[Coefficient, ...]
    residual_low: float
    residual_high: float
    fingerprint: str = ""

    @cached_property
    def values(self) -> Mapping[Feature, float]:
        """The coefficients with a value."""
        return {c.column: c.value for c in self.coefficients if c.value is not None}

    def missing(self, counted: Features) -> tuple[str, ...]:
        """Return the columns a Program needs that have no value here (optional ones are never needed)."""
        known = self.values
        return tuple(sorted(c.name for c in counted if c not in known and c.increment is Increment.NONE))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table `theta`."""
        return [
            {
                "term": c.column.term.value,
                "feature": c.column.name,
                "unit": c.column.unit,
                "value": c.value,
                "low": c.low,
                "high": c.high,
                "status": c.status.value,
                "programs": c.programs,
                "fingerprint": self.fingerprint,
            }
            for c in self.coefficients
        ]

    @classmethod
    def from_rows(
        cls, rows: Iterable[Mapping[str, Any]], *, residual_low: float, residual_high: float
    ) -> "Theta":
        """Read the rows of `to_rows`, with the residuals of the held-out row of the table `fidelity`."""
        coefficients, fingerprint = [], ""
        for row in rows:
            fingerprint = row["fingerprint"]
            column = Feature(
                name=row["feature"],
                term=Term(row["term"]),
                unit=row["unit"],
                increment=_increment_of(row["feature"]),
            )
            same = {name: row[name] for name in ("value", "low", "high", "programs")}
            coefficients.append(Coefficient(column=column, status=FitStatus(row["status"]), **same))
        return cls(tuple(coefficients), residual_low, residual_high, fingerprint)


def _increment_of(name: str) -> Increment:
    parts = name.split(".")
    return next((i for i in Increment if i is not Increment.NONE and i.value in parts), Increment.NONE)
