"""Rows of any table from the few values that matter: a new column breaks no test that does not look at it."""

from typing import Any

import polars as pl

from overlayccl_core.tables.table import Table

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
