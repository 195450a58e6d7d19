"""Accuracy of the cost model: on held-out Programs, of a Problem, and of each Case and direction of it."""

from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR

FIDELITY = Table(
    name="fidelity",
    row="the held-out Programs, one Case and direction of a Problem, or all of its Cases",
    folder="[problems/<problem>/]",
    rule="fit, finalists",
    version=4,
    columns=(
        text("problem", nullable=True, doc="null: held-out Programs"),
        text("case", nullable=True, doc="null: held-out Programs, or all of a Problem"),
        text("direction", nullable=True, values=("forward", "backward"), doc="null: as for `case`"),
        integer("n", doc="Programs compared"),
        integer("rounds", doc="fewest rounds of any of them"),
        number("spearman", nullable=True, doc="null: too few Programs, or of unlike Cases"),
        number("kendall", nullable=True, doc="null: as for `spearman`"),
        number("median_rel_error", doc="median of |predicted / measured - 1|"),
        number("pair_accuracy", nullable=True, doc="of `pairs`, in the right order; null: there are none"),
        number("repeat_pair_accuracy", nullable=True, doc="of `pairs`, in one order by even and odd rounds"),
        integer("pairs", doc="pairs of one Case further apart than two standard errors"),
        number("top1_regret", nullable=True, doc="first choice over best, minus 1; of a Problem: the median"),
        flag(
            "top1_within_noise",
            nullable=True,
            doc="the interval of the paired ratio holds 1; null: too few rounds for one, or all of a Problem",
        ),
        number("repeat_spearman", nullable=True, doc="even against odd rounds"),
        REPEAT_ERROR,
        number("residual_low", doc="lower factor of the prediction interval"),
        number("residual_high", doc="upper factor of the prediction interval"),
        FINGERPRINT,
    ),
)
