"""Timed seeds."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

BENCH = Table(
    name="bench",
    version=1,
    columns=(
        Column(name="case", dtype=pl.String()),
        Column(name="direction", dtype=pl.String(), values=("forward", "backward")),
        Column(name="strategy", dtype=pl.String()),
        *TIMING_COLUMNS,
    ),
)
