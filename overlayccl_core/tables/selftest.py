"""What was checked before anything was timed."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

SELFTEST = Table(
    name="selftest",
    version=1,
    columns=(
        Column(name="check", dtype=pl.String(), doc="what was checked"),
        Column(name="operation", dtype=pl.String(), nullable=True),
        Column(name="group_size", dtype=pl.Int64(), nullable=True, doc="ranks of a replica group"),
        Column(name="dtype", dtype=pl.String(), nullable=True),
        Column(name="outcome", dtype=pl.String()),
        Column(name="detail", dtype=pl.String(), doc="what was seen"),
        FINGERPRINT,
    ),
)
