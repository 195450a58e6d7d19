"""Candidates of the shortlist on real ranks: times or failures."""

from overlayccl_core.measuring.job_status import OF_A_CANDIDATE
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.table import Table, text
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

BENCH = Table(
    name="bench",
    row="one launch of one candidate at one Case and direction",
    folder="problems/<problem>/",
    rule="bench",
    version=6,
    columns=(
        *CANDIDATE_KEY,
        *TIMING_COLUMNS,
        text(
            "status",
            values=OF_A_CANDIDATE,
            doc="wrong: other values than its Program's; without samples unless `timed`",
        ),
        text(
            "message", doc="what happened and where its evidence is; timed: why its values were not looked at"
        ),
    ),
)
