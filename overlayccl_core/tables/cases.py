"""The Cases of one Problem."""

from overlayccl_core.tables.candidate_columns import PROBLEM
from overlayccl_core.tables.table import Table, flag, integer, text

CASES = Table(
    name="cases",
    row="one Case",
    folder="problems/<problem>/",
    rule="cases",
    version=2,
    columns=(
        text("case", doc="readable id"),
        PROBLEM,
        integer("ranks", doc="N of the Problem"),
        integer("groups", doc="how many at once"),
        flag("strided", doc="groups of ranks a stride apart"),
        integer("ranks_per_node", doc="equal to ranks: one tier"),
        flag("uniform", doc="all ranks compile one graph"),
        text("dtype", doc="of the elements"),
        text("parameters", doc="JSON"),
        integer("payload_bytes", doc="per rank"),
    ),
)
