"""Checks before any timing."""

from overlayccl_core.tables.table import Table, integer, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

SELFTEST = Table(
    name="selftest",
    row="one check",
    rule="selftest",
    version=3,
    columns=(
        text("check", doc="what was checked"),
        text("operation", nullable=True, doc="collective; null: of none"),
        integer("group_size", nullable=True, doc="ranks of a replica group; of a permute: number of senders"),
        integer(
            "stride",
            nullable=True,
            doc="ranks from a member of a group to the next; of a permute: to the receiver; 0: in no order",
        ),
        text("dtype", nullable=True, doc="of its elements; null: of none"),
        integer("payload_bytes", nullable=True, doc="on one rank, at the larger side"),
        text("outcome", doc="whether it passed"),
        text("detail", doc="what was seen"),
        FINGERPRINT,
    ),
)
