"""Timed Programs for fitting and judging the cost model."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

PROBES = Table(
    name="probes",
    row="one launch of one Program",
    folder="",
    rule="probe",
    version=3,
    columns=(
        Column(name="probe", dtype=pl.String(), doc="readable name"),
        Column(
            name="role",
            dtype=pl.String(),
            values=("structured", "mixed", "heldout"),
            doc="heldout: never in the fit",
        ),
        *TIMING_COLUMNS,
    ),
)
