"""Predictions of the cost model for known ways and finds, by Program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program

APART = 1.96 * 2**0.5 / 1.2816  # of normal errors: the 95% interval of a difference over half the 80% range
PADDING = 1.01  # factor for zeros behind a buffer
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


def first_choice(priced: Sequence[tuple[Prediction, Program]]) -> int:
    """Return the index of the model's choice: the plainest Program with a price like the cheapest.

    Two prices differ if they are further apart than the 95% interval of their difference. That interval follows
    from the range of the predictions (10% to 90%) as for normal errors. Among closer prices, the number of
    calls says more than the price, if no more bytes are sent.
    """
    cheapest = min(range(len(priced)), key=lambda i: priced[i][0].us)
    price = priced[cheapest][0]
    most_us = price.us * (price.high_us / price.low_us) ** (APART / 2)
    most_bytes = PADDING * _sent(priced[cheapest][1])
    plain = [i for i, (p, program) in enumerate(priced) if p.us <= most_us and _sent(program) <= most_bytes]
    return min(plain, key=lambda i: (len(priced[i][1].calls), priced[i][0].us))


def _sent(program: Program) -> float:
    return sum(map(wire_bytes, program.collectives))


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
