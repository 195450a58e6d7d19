"""Capabilities of the deployment's library, found by trying."""

from overlayccl_core.tables.table import Table, flag, integer, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

CAPABILITIES = Table(
    name="capabilities",
    row="one small call that was tried, or a large one that failed",
    rule="selftest",
    version=3,
    columns=(
        text("operation", doc="collective"),
        integer("group_size", doc="ranks of a replica group; of a permute: number of senders"),
        integer(
            "stride",
            doc="ranks from a member of a group to the next; of a permute: to the receiver; 0: in no order",
        ),
        text("dtype", doc="of its elements"),
        integer("payload_bytes", doc="on one rank, at the larger side"),
        flag("supported", doc="whether the library did it"),
        text("evidence", doc="what was run and what came out"),
        FINGERPRINT,
    ),
)
