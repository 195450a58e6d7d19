"""Conversion of plain Python rows to a frame of declared types, never silently."""

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

import polars as pl

Schema = Mapping[str, pl.DataType]


class TableError(ValueError):
    """Rows that do not fit their schema, or a file other than the expected table."""


def frame_of(rows: Sequence[Mapping[str, Any]] | pl.DataFrame, schema: Schema, where: str) -> pl.DataFrame:
    """Return `rows` (dicts or a frame) as a frame with exactly the columns of `schema`, in its order.

    Integers become floats for float columns; nothing else is converted. TableError: row, column and value.
    """
    if isinstance(rows, pl.DataFrame):
        return _same_columns(rows, schema, where)
    for number, row in enumerate(rows):
        _check_names(row, schema, f"{where}, row {number}")
    columns = (
        pl.Series(
            name,
            [_value(row[name], dtype, f"{where}, row {n}, column {name}") for n, row in enumerate(rows)],
            dtype=dtype,
            strict=True,
        )
        for name, dtype in schema.items()
    )
    return pl.DataFrame(columns)


def columns_of(schema: Schema) -> str:
    """Return `case String, n Int64`."""
    return ", ".join(f"{name} {dtype}" for name, dtype in schema.items()) or "none"


def _same_columns(frame: pl.DataFrame, schema: Schema, where: str) -> pl.DataFrame:
    _check_names(frame.schema, schema, where)
    for name, dtype in schema.items():
        if frame.schema[name] != dtype:
            raise TableError(f"{where}: column {name} must be {dtype} (got {frame.schema[name]}): cast it")
    return frame.select(list(schema))


def _check_names(names: Mapping[str, Any], schema: Schema, where: str) -> None:
    missing = [name for name in schema if name not in names]
    unknown = [name for name in names if name not in schema]
    if missing or unknown:
        raise TableError(
            f"{where}: columns missing: {missing or 'none'}; columns unknown: {unknown or 'none'}"
        )


def _value(value: Any, dtype: pl.DataType, where: str) -> Any:
    if value is None:
        return None
    if isinstance(dtype, pl.List):
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise TableError(f"{where}: must be a list (got {value!r})")
        inner = dtype.inner if isinstance(dtype.inner, pl.DataType) else dtype.inner()
        return [_value(item, inner, where) for item in value]
    number = not isinstance(value, bool | str)
    if dtype == pl.Float64() and number and isinstance(value, SupportsFloat):
        return float(value)
    if dtype == pl.Int64() and number and isinstance(value, SupportsIndex):
        return int(value)
    if dtype == pl.Boolean() and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if dtype == pl.String() and isinstance(value, str):
        return str(value)
    raise TableError(f"{where}: must be {dtype} (got {value!r} of type {type(value).__name__})")
