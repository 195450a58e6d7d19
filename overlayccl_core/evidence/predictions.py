"""What the cost model says of known ways and of what the search found, by Program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.program import Program

Place = tuple[str, str]
"""(case, direction)."""
APART = 1.96 * 2**0.5 / 1.2816  # of normal errors: the 95% interval of a difference over half the 80% range
PADDING = 1.01  # what zeros behind a buffer may add to its bytes
COLUMNS = ("case", "direction", "program", "predicted_us", "low_us", "high_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A price with its 10% to 90% range."""

    us: float
    low_us: float
    high_us: float


def predictions(prices: pl.DataFrame, candidates: pl.DataFrame) -> dict[tuple[str, str, str], Prediction]:
    """(case, direction, program) -> Prediction, of every Program that has a price.

    prices, candidates: frames with the columns of `prices`; where both have a Program, theirs are equal.
    """
    by_program: dict[tuple[str, str, str], Prediction] = {}
    for frame in (candidates, prices):
        for row in _priced(frame.select(COLUMNS).iter_rows(named=True)):
            by_program[row["case"], row["direction"], row["program"]] = Prediction(
                us=row["predicted_us"], low_us=row["low_us"], high_us=row["high_us"]
            )
    return by_program


def first_choice(priced: Sequence[tuple[Prediction, Program]]) -> int:
    """The Program that the model would deploy: the plainest among those that it cannot tell from the cheapest.

    The model tells two prices apart if they differ by more than the 95% interval of their difference. That
    interval follows from the range of the predictions (10% to 90%) as for normal errors. Among closer prices,
    the number of calls says more than the price, as long as no more bytes are sent.
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
    """The (case, direction) of a table, in its order."""
    rows = frame.select("case", "direction").unique(maintain_order=True).iter_rows()
    return [(case, direction) for case, direction in rows]


def at(frame: pl.DataFrame, place: Place) -> pl.DataFrame:
    """The rows of one (case, direction)."""
    case, direction = place
    return frame.filter((pl.col("case") == case) & (pl.col("direction") == direction))


def _priced(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (row for row in rows if row["predicted_us"] is not None)
