"""Every strategy of a Problem's library at every Case: its Program or the reason for having none, its verdicts."""

from enum import StrEnum

from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, NUMERICS_OR_NULL
from overlayccl_core.tables.table import Table, integer, text


class WayStatus(StrEnum):
    """Outcome of tracing a strategy of the library at a Case."""

    PROGRAM = "program"
    NOT_APPLICABLE = "not_applicable"
    REJECTED = "rejected"


KNOWN_WAYS = Table(
    name="known_ways",
    row="one strategy of the library at one Case and direction",
    folder="problems/<problem>/",
    rule="known_ways",
    version=1,
    columns=(
        CASE,
        DIRECTION,
        text("strategy", doc="of the library"),
        text("role", doc="developer, single_graph, hand_bundled, derived or other"),
        text("status", values=tuple(WayStatus), doc="what it became here"),
        text("recipe", doc="JSON"),
        text("program", nullable=True, doc="digest; null: there is none"),
        text("value_digest", nullable=True, doc="null: there is no Program"),
        text("program_json", nullable=True, doc="null: there is no Program"),
        integer("collectives", nullable=True, doc="issued per call"),
        integer("wire_bytes", nullable=True, doc="sent by one rank"),
        integer("peak_bytes", nullable=True, doc="live at once on a rank"),
        NUMERICS_OR_NULL,
        text("legality", values=tuple(Outcome), doc="the deployment can call it and holds it"),
        text("equivalence", nullable=True, values=tuple(Outcome), doc="of the proof; null: not asked"),
        text("reason", doc="code of the first verdict that is no pass; ok"),
        text("message", doc="one sentence for people"),
    ),
)
