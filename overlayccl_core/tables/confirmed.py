"""The chosen Programs, as file and as module, beside arms without a search, in launches after the choice.

One row a launch and arm, for Cases outside all models: for the others the steps count. If several arms have the
same Program at a Case and direction, it is timed once, as the plainest of them.
"""

from overlayccl_core.measuring.arms import OF_A_CASE, ArmName
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, PROBLEM
from overlayccl_core.tables.table import Table, text
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

CONFIRMED = Table(
    name="confirmed",
    row="one launch of one arm at one Case and direction",
    rule="confirm",
    version=6,
    minimum_rows=0,
    columns=(
        PROBLEM,
        *CANDIDATE_KEY[:2],
        text("arm", values=(*OF_A_CASE, ArmName.DEPLOYED), doc="deployed: the chosen file itself"),
        CANDIDATE_KEY[2],
        *TIMING_COLUMNS,
    ),
)
