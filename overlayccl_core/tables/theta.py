"""The fitted coefficients of the cost model."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

THETA = Table(
    name="theta",
    row="one coefficient",
    folder="",
    rule="fit",
    version=1,
    columns=(
        Column(name="term", dtype=pl.String(), doc="the term of prices that the feature belongs to"),
        Column(name="feature", dtype=pl.String(), doc="what is counted in a Program"),
        Column(name="unit", dtype=pl.String(), doc="of value, low and high"),
        Column(name="value", dtype=pl.Float64(), nullable=True, doc="null: unidentified"),
        Column(name="low", dtype=pl.Float64(), nullable=True, doc="lower end of the bootstrap interval"),
        Column(name="high", dtype=pl.Float64(), nullable=True, doc="upper end of the bootstrap interval"),
        Column(
            name="status",
            dtype=pl.String(),
            values=("fitted", "zero", "unidentified"),
            doc="unidentified: no probe tells it",
        ),
        Column(name="programs", dtype=pl.Int64(), doc="Programs of the fit that have the feature"),
        FINGERPRINT,
    ),
)
