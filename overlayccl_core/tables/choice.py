"""What every gate said of every candidate, and what is deployed at each Case and direction, and why."""

import polars as pl

from overlayccl_core.measuring.arms import OF_A_CASE
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, NUMERICS, VERDICT_COLUMNS, ratio, us
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL

CHOICE = Table(
    name="choice",
    version=1,
    columns=(
        *CANDIDATE_KEY,
        Column(name="arm", dtype=pl.String(), values=OF_A_CASE, doc="as which it was chosen"),
        Column(name="recipe", dtype=pl.String(), doc="JSON"),
        NUMERICS,
        Column(name="program", dtype=pl.String(), doc="digest"),
        Column(name="value_digest", dtype=pl.String()),
        Column(
            name="trained_in",
            dtype=pl.String(),
            nullable=True,
            doc="`nano m8, ...`; null: no model has this Case",
        ),
        us("predicted_us", "null: no price"),
        us(
            "predicted_pair_us", "of forward and backward as deployed; a direction without talk costs nothing"
        ),
        us("measured_us", "null: not measured"),
        *ratio("speedup", "developer's time over this one's in the bench"),
        *ratio("step_speedup", "developer's step over this one's; of several models the least"),
        *ratio(
            "step_gain", "step of the best arm that needs no search (baselines, framework) over this one's"
        ),
        Column(name="best_other", dtype=pl.String(), nullable=True, doc="that arm"),
        Column(
            name="regret",
            dtype=pl.Float64(),
            nullable=True,
            doc="its bench time over the least of all measured ones that are not lossy, minus 1",
        ),
        Column(
            name="model_regret",
            dtype=pl.Float64(),
            nullable=True,
            doc="the same of the model's first choice among those",
        ),
        Column(name="reason", dtype=pl.String(), doc="why this one, in a sentence"),
        FINGERPRINT_OR_NULL,
    ),
)

VERDICTS = Table(
    name="verdicts",
    version=1,
    columns=(
        *CANDIDATE_KEY,
        Column(
            name="arm", dtype=pl.String(), nullable=True, doc="null: it was no arm, or is judged as no arm"
        ),
        Column(name="model", dtype=pl.String(), nullable=True, doc="`nano m8`; null: judged in no model"),
        Column(
            name="gate",
            dtype=pl.String(),
            values=("legality", "equivalence", "bench", "training", "choice"),
        ),
        *VERDICT_COLUMNS,
        Column(name="evidence", dtype=pl.String(), doc="JSON"),
    ),
)
