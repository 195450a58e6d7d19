"""Rows of any table from the few values that matter, and a table with its sidecar."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.tables.sidecar import write_sidecar
from overlayccl_core.tables.table import Table, write

Row = dict[str, Any]


def row(table: Table, **values: Any) -> Row:
    """A row of a table: what is not given is null where it may be, else an empty value of its type."""
    unknown = set(values) - {column.name for column in table.columns}
    assert not unknown, f"table {table.name} has no {unknown}"
    empty = {pl.String(): "", pl.Int64(): 0, pl.Float64(): 0.0, pl.Boolean(): False}
    return {
        c.name: values[c.name]
        if c.name in values
        else None
        if c.nullable
        else c.values[0]
        if c.values
        else empty.get(c.dtype, [])
        for c in table.columns
    }


def put(table: Table, rows: Sequence[Row], path: Path) -> None:
    """Write a table with its sidecar."""
    write(table, rows, path)
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    write_sidecar(path, inputs=(), command=("made", "up"), started=now, ended=now)
