"""Tables of the target `sweep_m`: the arms of models at all their numbers of microbatches."""

from dataclasses import replace

from overlayccl_core.tables.candidate_columns import ratio
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

FOLDER = "sweep_m/"
SWEPT_STEPS, SWEPT_STAMPS = (
    replace(
        table,
        name=f"swept_{table.name}",
        row=f"as `{table.name}`, in launches that choose nothing",
        folder=f"{FOLDER}<model>/",
        rule="train_splits",
        version=1,
    )
    for table in (STEPS, STAMPS)
)
SWEPT_SPLITS = Table(
    name="swept_splits",
    row="one arm of one model at one count of microbatches",
    folder=FOLDER,
    rule="weigh_splits",
    version=1,
    columns=(
        text("model", doc="a file in config/models"),
        integer("microbatches", doc="M, into which the same batch is split; 1: not at all"),
        text("arm", doc="as in `steps`"),
        text("ran_as", doc="the plainest arm with the same Programs, whose figures these are"),
        flag("needs_search", doc="false: people write it"),
        flag("best", doc="the fastest step of the model at any M, by the odd steps"),
        flag("rival", doc="the fastest step without a search at any M, by the odd steps"),
        number("step_us", doc="median of the even steps, median over launches"),
        number("low_us", nullable=True, doc="lower end of its 95% interval; null: too few steps"),
        number("high_us", nullable=True, doc="upper end"),
        *ratio("gain", doc="developer's step at the same M over its own, even steps; null: developer's own"),
        *ratio(
            "over_whole",
            doc="developer's step at M = 1, not split, over its own; null: that step, or the model has no M = 1",
        ),
        *ratio("over_rival", doc="the rival's step over its own; null: the rival's own"),
        integer("peak_memory_bytes", nullable=True, doc="as in `steps`"),
        integer("launches", doc="that timed it"),
        flag("disturbed", doc="others took CPU time in most of the launches"),
        FINGERPRINT,
    ),
)
