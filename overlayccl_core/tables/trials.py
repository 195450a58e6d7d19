"""Sketches of a language model, run once each on real ranks; the model is asked again about failures."""

from overlayccl_core.measuring.job_status import OF_A_SKETCH
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.table import Table, text

TRIALS = Table(
    name="trials",
    row="one proven sketch at one Case and direction",
    folder="problems/<problem>/search/<search>/",
    rule="trial",
    version=1,
    minimum_rows=0,
    columns=(
        *CANDIDATE_KEY,
        text("search", doc="whose sketch it is"),
        text(
            "status",
            values=OF_A_SKETCH,
            doc="right_values: it ran, and gave its Program's values; wrong: other values",
        ),
        text(
            "message",
            doc="what happened and where its evidence is; right_values: why its values were not looked at, if so",
        ),
    ),
)
