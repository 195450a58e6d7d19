"""What every gate said of every candidate that came so far."""

import polars as pl

from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, VERDICT_COLUMNS
from overlayccl_core.tables.table import Column, Table

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
