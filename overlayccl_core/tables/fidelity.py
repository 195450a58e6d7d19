"""Accuracy of the cost model: on held-out Programs (problem null), and per Case and direction of a Problem."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR

FIDELITY = Table(
    name="fidelity",
    row="the held-out Programs, or one Case and direction of a Problem",
    folder="[problems/<problem>/]",
    rule="fit, finalists",
    version=3,
    columns=(
        Column(name="problem", dtype=pl.String(), nullable=True, doc="null: held-out Programs"),
        Column(name="case", dtype=pl.String(), nullable=True, doc="null: held-out Programs"),
        Column(
            name="direction",
            dtype=pl.String(),
            nullable=True,
            values=("forward", "backward"),
            doc="null: held-out Programs",
        ),
        Column(name="n", dtype=pl.Int64(), doc="Programs compared"),
        Column(name="rounds", dtype=pl.Int64(), doc="fewest rounds of any of them"),
        Column(name="spearman", dtype=pl.Float64(), nullable=True, doc="null: too few Programs"),
        Column(name="kendall", dtype=pl.Float64(), nullable=True, doc="null: too few Programs"),
        Column(name="median_rel_error", dtype=pl.Float64(), doc="median of |predicted / measured - 1|"),
        Column(
            name="pair_accuracy", dtype=pl.Float64(), nullable=True, doc="of `pairs`; null: there are none"
        ),
        Column(name="pairs", dtype=pl.Int64(), doc="pairs further apart than two standard errors"),
        Column(name="top1_regret", dtype=pl.Float64(), nullable=True, doc="first choice over best, minus 1"),
        Column(
            name="top1_within_noise",
            dtype=pl.Boolean(),
            nullable=True,
            doc="the interval of the paired ratio holds 1; null: too few rounds for one",
        ),
        Column(name="repeat_spearman", dtype=pl.Float64(), nullable=True, doc="even against odd rounds"),
        REPEAT_ERROR,
        Column(name="residual_low", dtype=pl.Float64(), doc="lower factor of the prediction interval"),
        Column(name="residual_high", dtype=pl.Float64(), doc="upper factor of the prediction interval"),
        FINGERPRINT,
    ),
)
