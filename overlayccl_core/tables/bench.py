"""Timed candidates of the shortlist."""

from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.table import Table
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

BENCH = Table(
    name="bench",
    version=2,
    columns=(*CANDIDATE_KEY, *TIMING_COLUMNS),
)
