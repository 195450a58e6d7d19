"""What calls cost beside computing: for the price in the step."""

from overlayccl_core.tables.table import Table, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

BESIDE = Table(
    name="beside",
    row="one kind of call at one reach and size",
    rule="fit",
    version=1,
    minimum_rows=0,
    columns=(
        text("kind", doc="of the call"),
        text("reach", doc="tier and ranks of a group, as in features"),
        integer("payload_bytes", doc="at the larger side"),
        number("call_us", doc="of the call alone"),
        number("cpu_share", doc="of call_us on the rank's core (0..1)"),
        number("slower", doc="factor by which the call takes longer while the core computes"),
        number("rel_error", doc="largest error of the formula at the timed lengths of work"),
        FINGERPRINT,
    ),
)
