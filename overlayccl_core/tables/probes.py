"""Timed Programs for fitting and judging the cost model."""

from overlayccl_core.tables.table import Table, text
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

PROBES = Table(
    name="probes",
    row="one launch of one Program",
    rule="probe",
    version=5,
    columns=(
        text("probe", doc="readable name"),
        text(
            "role",
            values=("structured", "shape", "mixed", "heldout", "beside"),
            doc="heldout: in no fit; beside: in that of `beside`; else in that of `theta`",
        ),
        *TIMING_COLUMNS,
    ),
)
