"""One row per Case, direction and candidate: proof, price, bench, validity, choice."""

from dataclasses import replace
from enum import StrEnum

from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, NUMERICS_OR_NULL, PROBLEM, ratio
from overlayccl_core.tables.known_ways import WayStatus
from overlayccl_core.tables.table import Table, flag, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL, REPEAT_ERROR


class Validity(StrEnum):
    """Whether a measured time is physically possible."""

    VALID = "valid"
    INVALID = "invalid"  # below the physical floor
    UNMEASURED = "unmeasured"


SUMMARY = Table(
    name="summary",
    row="one candidate at one Case and direction",
    rule="summary",
    version=6,
    columns=(
        PROBLEM,
        *CANDIDATE_KEY,
        text("role", doc="developer, single_graph, hand_bundled, other (known ways) or found"),
        text("status", values=tuple(WayStatus), doc="what a strategy became here"),
        text("proof", doc="outcome of the equivalence gate, or why it did not run"),
        NUMERICS_OR_NULL,
        text("program", nullable=True, doc="digest; null: there is none"),
        number("predicted_us", nullable=True, doc="of a pass; null: no price"),
        number("predicted_low_us", nullable=True, doc="8 true times of 10 lie above this and below the next"),
        number("predicted_high_us", nullable=True, doc="as the one before"),
        number("measured_us", nullable=True, doc="of a pass in the bench; null: not timed"),
        number("measured_low_us", nullable=True, doc="lower end of its 95% interval"),
        number("measured_high_us", nullable=True, doc="upper end of its 95% interval"),
        *ratio(
            "speedup",
            doc="developer's time over this one's in the bench; the fastest in a bench look faster than they are",
        ),
        replace(REPEAT_ERROR, nullable=True),
        number("algbw_gbps", nullable=True, doc="payload over time"),
        number("busbw_gbps", nullable=True, doc="algbw scaled to the load of the links"),
        number("floor_us", nullable=True, doc="no time below this can be true"),
        text("validity", values=tuple(Validity), doc="can the time be true?"),
        flag("chosen", doc="what was chosen for this Case and direction"),
        flag(
            "disturbed",
            nullable=True,
            doc="others took CPU time in the launches measured; null: there are none",
        ),
        FINGERPRINT_OR_NULL,
    ),
)
