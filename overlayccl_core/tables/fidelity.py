"""Accuracy of the cost model: on held-out Programs (problem null), and per Case and direction of a Problem."""

from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR

FIDELITY = Table(
    name="fidelity",
    row="the held-out Programs, or one Case and direction of a Problem",
    folder="[problems/<problem>/]",
    rule="fit, finalists",
    version=3,
    columns=(
        text("problem", nullable=True, doc="null: held-out Programs"),
        text("case", nullable=True, doc="null: held-out Programs"),
        text("direction", nullable=True, values=("forward", "backward"), doc="null: held-out Programs"),
        integer("n", doc="Programs compared"),
        integer("rounds", doc="fewest rounds of any of them"),
        number("spearman", nullable=True, doc="null: too few Programs"),
        number("kendall", nullable=True, doc="null: too few Programs"),
        number("median_rel_error", doc="median of |predicted / measured - 1|"),
        number("pair_accuracy", nullable=True, doc="of `pairs`; null: there are none"),
        integer("pairs", doc="pairs further apart than two standard errors"),
        number("top1_regret", nullable=True, doc="first choice over best, minus 1"),
        flag(
            "top1_within_noise",
            nullable=True,
            doc="the interval of the paired ratio holds 1; null: too few rounds for one",
        ),
        number("repeat_spearman", nullable=True, doc="even against odd rounds"),
        REPEAT_ERROR,
        number("residual_low", doc="lower factor of the prediction interval"),
        number("residual_high", doc="upper factor of the prediction interval"),
        FINGERPRINT,
    ),
)
