"""The fitted coefficients of the cost model."""

from overlayccl_core.tables.table import Table, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

THETA = Table(
    name="theta",
    row="one coefficient",
    rule="fit",
    version=1,
    columns=(
        text("term", doc="the term of prices that the feature belongs to"),
        text("feature", doc="what is counted in a Program"),
        text("unit", doc="of value, low and high"),
        number("value", nullable=True, doc="null: unidentified"),
        number("low", nullable=True, doc="lower end of the bootstrap interval"),
        number("high", nullable=True, doc="upper end of the bootstrap interval"),
        text("status", values=("fitted", "zero", "unidentified"), doc="unidentified: no probe tells it"),
        integer("programs", doc="Programs of the fit that have the feature"),
        FINGERPRINT,
    ),
)
