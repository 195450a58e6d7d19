"""Every gate's verdict on every candidate, and the choice at each Case and direction.

`choice` holds decisions without times: equal decisions give an equal table, and nothing is measured anew. The
reasons stand in `verdicts`, under the gate `choice`.
"""

import polars as pl

from overlayccl_core.tables.candidate_columns import (
    CANDIDATE_KEY,
    CHOSEN_AS,
    NUMERICS,
    VALUE_DIGEST,
    VERDICT_COLUMNS,
)
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL

CHOICE = Table(
    name="choice",
    row="one Case and direction",
    folder="problems/<problem>/",
    rule="choose",
    version=3,
    columns=(
        *CANDIDATE_KEY,
        CHOSEN_AS,
        Column(name="recipe", dtype=pl.String(), doc="JSON"),
        NUMERICS,
        Column(name="program", dtype=pl.String(), doc="digest"),
        VALUE_DIGEST,
        Column(
            name="trained_in",
            dtype=pl.String(),
            nullable=True,
            doc="`nano m8, ...`; null: no model has this Case",
        ),
        FINGERPRINT_OR_NULL,
    ),
)

VERDICTS = Table(
    name="verdicts",
    row="one verdict of a gate on one candidate",
    folder="problems/<problem>/",
    rule="choose",
    version=2,
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
            doc="who judged",
        ),
        *VERDICT_COLUMNS,
        Column(name="evidence", dtype=pl.String(), doc="JSON"),
    ),
)
