"""Predictions of the cost model for known ways and finds, by Program."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.program.problem import Place

COLUMNS = ("case", "direction", "program", "predicted_us", "low_us", "high_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A price with its 10% to 90% range."""

    us: float
    low_us: float
    high_us: float


def predictions(prices: pl.DataFrame, candidates: pl.DataFrame) -> dict[tuple[str, str, str], Prediction]:
    """Return (case, direction, program) -> Prediction, for every Program with a price.

    prices, candidates: frames with the columns of `prices`; equal for a Program in both.
    """
    by_program: dict[tuple[str, str, str], Prediction] = {}
    for frame in (candidates, prices):
        for row in _priced(frame.select(COLUMNS).iter_rows(named=True)):
            by_program[row["case"], row["direction"], row["program"]] = Prediction(
                us=row["predicted_us"], low_us=row["low_us"], high_us=row["high_us"]
            )
    return by_program


def places(frame: pl.DataFrame) -> list[Place]:
    """Return the (case, direction) of a table, in its order."""
    rows = frame.select("case", "direction").unique(maintain_order=True).iter_rows()
    return [(case, direction) for case, direction in rows]


def place_of(row: Mapping[str, Any]) -> Place:
    """Return the (case, direction) of a table's row."""
    return row["case"], row["direction"]


def rows_at(frame: pl.DataFrame, place: Place) -> pl.DataFrame:
    """Return the rows of one (case, direction)."""
    case, direction = place
    return frame.filter((pl.col("case") == case) & (pl.col("direction") == direction))


def _priced(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (row for row in rows if row["predicted_us"] is not None)
