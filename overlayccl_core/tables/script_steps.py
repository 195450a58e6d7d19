"""Training steps of somebody's script in several modes, by `overlayccl capture --compare` and `losses`."""

from overlayccl_core.tables.table import Table, integer, number, numbers, text

SCRIPT_STEPS = Table(
    name="script_steps",
    row="one training step of one rank",
    folder="",
    rule="overlayccl capture --compare, overlayccl losses",
    version=2,
    columns=(
        integer(
            "pair", doc="a launch of each mode, one after the other; counts from 0. Of `losses`: the seed"
        ),
        text(
            "mode",
            doc="plain: as it is; tuned: with proven calls; int8 and others: what `losses` was asked to judge",
        ),
        integer("rank", doc="of the whole job"),
        integer("step", doc="training steps before it"),
        number(
            "step_us",
            nullable=True,
            doc="length of the step; null: the first, which began before it was timed",
        ),
        numbers("losses", doc="what the step's backward passes began at, if that is one number, and not NaN"),
    ),
)
