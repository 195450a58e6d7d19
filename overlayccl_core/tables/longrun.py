"""Tables of the target `longrun`: many steps of the arms of each model, their losses, and the verdicts on these.

Each arm has launches of its own, at other moments than the others', so their times give no ratios.
"""

from dataclasses import replace

from overlayccl_core.tables.candidate_columns import NUMERICS, VERDICT_COLUMNS
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import Column, Table, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

_ARM = (
    text("model", doc="a file in config/models"),
    integer("microbatches", doc="into which a batch is split: as it is deployed"),
    text("arm", doc="as in `steps`"),
)
_SEED = integer("seed", doc="of parameters and batches; all but 0 are developer's alone")


def _loss(name: str, doc: str) -> Column:
    return number(name, nullable=True, doc=f"{doc}; null: the arm failed")


LONG_STEPS = replace(
    STEPS,
    name="long_steps",
    row="as `steps`: one course of an arm, from one seed, in a launch of its own",
    folder="longrun/<model>/",
    rule="longtrain",
)
LONG_STAMPS = replace(
    STAMPS, name="long_stamps", row="as `stamps`", folder="longrun/<model>/", rule="longtrain", minimum_rows=0
)
LOSSES = Table(
    name="losses",
    row="one step of one arm from one seed, of all models",
    folder="longrun/",
    rule="losses",
    version=2,
    columns=(
        *_ARM,
        _SEED,
        integer("step", doc="from 0 on"),
        number("loss", doc="mean over the ranks with a loss, before the update"),
        number(
            "developer_difference",
            nullable=True,
            doc="from developer's loss at the same seed and step; null: it has none",
        ),
        FINGERPRINT,
    ),
)
CURVES = Table(
    name="curves",
    row="one arm of one model, and whether it trains like developer's",
    folder="longrun/",
    rule="losses",
    version=2,
    columns=(
        *_ARM,
        replace(NUMERICS, nullable=True, doc="the worst of its Programs; null: not known"),
        integer("steps", doc="trained steps"),
        _loss("first_loss", "of seed 0, before the first update"),
        _loss("last_loss", "of seed 0, mean over the last tenth of the steps"),
        number(
            "validation_loss",
            nullable=True,
            doc="of seed 0, on held-out text after the last step; null: no rank has the whole model",
        ),
        *VERDICT_COLUMNS,
        text(
            "evidence",
            doc="JSON: early_rel_difference, the largest of the first steps; final_difference, of last_loss, the "
            "largest over ranks; band, the interquartile range of developer's last_loss over seeds",
        ),
        FINGERPRINT,
    ),
)
