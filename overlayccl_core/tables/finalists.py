"""What is trained: the best two measured of each Case and direction, and the baselines beside them."""

import polars as pl

from overlayccl_core.measuring.arms import OF_A_CASE
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, NUMERICS, VERDICT_COLUMNS, us
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL

FINALISTS = Table(
    name="finalists",
    version=1,
    columns=(
        *CANDIDATE_KEY[:2],
        Column(name="arm", dtype=pl.String(), values=OF_A_CASE),
        CANDIDATE_KEY[2],
        Column(name="recipe", dtype=pl.String(), doc="JSON"),
        NUMERICS,
        Column(name="program", dtype=pl.String(), doc="digest"),
        Column(name="program_json", dtype=pl.String()),
        us("predicted_us", "null: no price"),
        us("measured_us", "null: not measured"),
        us("measured_low_us"),
        us("measured_high_us"),
        us("floor_us", "no time below this can be true"),
        *VERDICT_COLUMNS,
        FINGERPRINT_OR_NULL,
    ),
)
