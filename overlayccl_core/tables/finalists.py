"""The arms to train: the best two measured at each Case and direction, and the baselines.

A Case that exchanges nothing has the developer's Program alone, since a file has it, too. There is no price,
time or verdict here: equal Programs give an equal table, and nothing is trained anew.
"""

from overlayccl_core.measuring.arms import OF_A_CASE
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, NUMERICS, PROGRAM_JSON
from overlayccl_core.tables.table import Table, text
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL

FINALISTS = Table(
    name="finalists",
    row="one arm at one Case and direction",
    folder="problems/<problem>/",
    rule="finalists",
    version=4,
    columns=(
        *CANDIDATE_KEY[:2],
        text("arm", values=OF_A_CASE, doc="what it is trained as (docs/training.md)"),
        CANDIDATE_KEY[2],
        text("recipe", doc="JSON"),
        NUMERICS,
        text("program", doc="digest"),
        PROGRAM_JSON,
        FINGERPRINT_OR_NULL,
    ),
)
