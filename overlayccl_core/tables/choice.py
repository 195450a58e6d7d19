"""Every gate's verdict on every candidate, and the choice at each Case and direction.

`choice` holds decisions without times: equal decisions give an equal table, and nothing is measured anew. The
reasons stand in `verdicts`, under the gate `choice`.
"""

from overlayccl_core.measuring.outcomes import Gate
from overlayccl_core.tables.candidate_columns import (
    CANDIDATE_KEY,
    CHOSEN_AS,
    NUMERICS,
    VALUE_DIGEST,
    VERDICT_COLUMNS,
)
from overlayccl_core.tables.table import Table, text
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
        text("recipe", doc="JSON"),
        NUMERICS,
        text("program", doc="digest"),
        VALUE_DIGEST,
        text("trained_in", nullable=True, doc="`nano m8, ...`; null: no model has this Case"),
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
        text("arm", nullable=True, doc="null: it was no arm, or is judged as no arm"),
        text("model", nullable=True, doc="`nano m8`; null: judged in no model"),
        text("gate", values=tuple(Gate), doc="who judged"),
        *VERDICT_COLUMNS,
        text("evidence", doc="JSON"),
    ),
)
