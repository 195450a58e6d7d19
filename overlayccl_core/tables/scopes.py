"""Tables of the target `scopes`: the same Programs alone, beside a running matmul, and in the training step."""

from enum import StrEnum

from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, PROBLEM
from overlayccl_core.tables.table import Table, integer, number, text
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS


class TimedScope(StrEnum):
    """Where a Program is timed outside of a step."""

    ALONE = "alone"
    BESIDE = "beside"  # each rank multiplies matrices in another thread all the while


SCOPE = text("scope", values=tuple(TimedScope), doc="beside: while each rank multiplies matrices")
OF_A_STEP = (
    text("model", doc="a file in config/models"),
    integer("microbatches", doc="into which a batch is split"),
)

SCOPES = Table(
    name="scopes",
    row="one launch of one Program in one scope; all in one launch",
    folder="scopes/",
    rule="time_scopes",
    version=1,
    columns=(PROBLEM, *CANDIDATE_KEY, SCOPE, *TIMING_COLUMNS),
)
SCOPED_ARMS = Table(
    name="scoped_arms",
    row="one arm of one model at one count of microbatches",
    folder="scopes/",
    rule="weigh_scopes",
    version=1,
    columns=(
        *OF_A_STEP,
        text("arm", doc="as in `steps`; of those with the same Programs the plainest"),
        number("alone_us", doc="its Programs at all sites of a step, one after the other"),
        number("beside_us", doc="the same, while each rank multiplies matrices"),
        number("step_us", doc="median of its steps"),
    ),
)
SCOPE_ORDERS = Table(
    name="scope_orders",
    row="one scope of one model at one count of microbatches, compared with the step",
    folder="scopes/",
    rule="weigh_scopes",
    version=1,
    columns=(
        *OF_A_STEP,
        SCOPE,
        integer("arms", doc="that were compared"),
        number("spearman", nullable=True, doc="order of the arms, with that of their steps; null: too few"),
        integer("pairs", doc="of arms with steps further apart than two standard errors"),
        number("otherwise", nullable=True, doc="share of `pairs` in another order; null: there are none"),
        text("fastest", doc="the arm with the least time in this scope"),
        text("fastest_in_step", doc="the arm with the fastest step"),
    ),
)
