"""Comparison of two files: equal to the byte, or except for the last digits of their numbers."""

import re
from pathlib import Path

import numpy as np
import polars as pl

from overlayccl_core.archiving.findings import CheckOutcome
from overlayccl_core.tables.calls import CALLS

REL_TOLERANCE = 1e-6  # other processors sum in other orders: last digits of a fit
EQUAL = f"numbers are equal to {REL_TOLERANCE:g}"
TOLD = (".json", ".html")  # files with figures; a module must be equal to the byte
OF_ASKING = ("recorded", "seconds")  # columns of `calls` about the asking, not the answer
SHOWN = 60  # characters of a value
NUMBER = re.compile(
    r"[-+]?\d+\.\d+(?:[eE][-+]\d+)?|(?<![\w.+-])[-+]?\d+[eE][-+]\d+(?![\w.+-])"
)  # not a whole number; its exponent has a sign, unlike a digest's `5000e002`


def difference(made: Path, told: Path) -> tuple[CheckOutcome, str]:
    """Compare a file made again with the archived one."""
    if made.read_bytes() == told.read_bytes():
        return CheckOutcome.EXACT, ""
    if made.suffix != ".parquet":
        a, b = (file.read_text() for file in (made, told))
        if made.suffix in TOLD and _texts_close(a, b):
            return CheckOutcome.WITHIN, EQUAL
        return CheckOutcome.WRONG, _lines(a.splitlines(), b.splitlines())
    frames = (pl.read_parquet(file) for file in (made, told))
    if made.stem == CALLS.name:
        frames = (frame.drop(OF_ASKING) for frame in frames)
    return frames_differ(*frames)


def _lines(made: list[str], told: list[str]) -> str:
    row = next(
        (k for k, (a, b) in enumerate(zip(made, told, strict=False)) if a != b), min(len(made), len(told))
    )
    a, b = (lines[row] if row < len(lines) else "nothing" for lines in (made, told))
    at = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    from_ = max(0, at - SHOWN // 2)
    return f"line {row + 1}: {a[from_ : from_ + SHOWN]!r} comes out, {b[from_ : from_ + SHOWN]!r} is told"


def frames_differ(made: pl.DataFrame, told: pl.DataFrame) -> tuple[CheckOutcome, str]:
    """Compare two tables whose bytes differ."""
    if made.schema != told.schema or made.height != told.height:
        return (
            CheckOutcome.WRONG,
            f"{made.height} rows of {made.width} columns come out, {told.height} of {told.width} told",
        )
    for name in made.columns:
        if (row := _unequal(made[name], told[name])) is not None:
            a, b = (str(frame[name][row])[:SHOWN] for frame in (made, told))
            return CheckOutcome.WRONG, f"column {name}, row {row}: {a} comes out, {b} is told"
    return CheckOutcome.WITHIN, EQUAL


def _unequal(made: pl.Series, told: pl.Series) -> int | None:
    """Return the first row in which two columns differ by more than the tolerance."""
    for row, (a, b) in enumerate(zip(made.to_list(), told.to_list(), strict=True)):
        if a != b and not _close(a, b):
            return row
    return None


def _close(a: object, b: object) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(x == y or _close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, str) and isinstance(b, str):
        return _texts_close(a, b)
    if not (isinstance(a, float) and isinstance(b, float)):
        return False
    return bool(np.isfinite([a, b]).all() and np.isclose(a, b, rtol=REL_TOLERANCE, atol=0.0))


def _texts_close(a: str, b: str) -> bool:
    """Return whether two texts differ only in the last digits of numbers."""
    if NUMBER.split(a) != NUMBER.split(b):
        return False
    return all(_close(float(x), float(y)) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True))
