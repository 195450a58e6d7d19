"""Programs to time at each Case and direction, with reasons. No price: an equal list measures nothing anew."""

from enum import StrEnum

from overlayccl_core.measuring.arms import BASELINES
from overlayccl_core.tables.candidate_columns import (
    CANDIDATE_KEY,
    NUMERICS,
    ORIGIN,
    PROGRAM_JSON,
    VALUE_DIGEST,
)
from overlayccl_core.tables.table import Table, text, texts


class Why(StrEnum):
    """Reason for timing a Program besides the baselines."""

    KNOWN = "known"
    BEST_PREDICTED = "best_predicted"
    FAMILY = "family"
    RANDOM = "random"
    OVERLAPS = "overlaps"
    NEXT_CHEAPEST = "next_cheapest"
    REDEPLOYED = "redeployed"  # chosen in another tree, whatever its price here


SHORTLIST = Table(
    name="shortlist",
    row="one Program to time at one Case and direction",
    folder="problems/<problem>/",
    rule="shortlist",
    version=4,
    columns=(
        *CANDIDATE_KEY,
        texts(
            "why",
            values=(*BASELINES, *Why),
            doc="of the library: its roles, or known; of what is derived or found: what it is an example of",
        ),
        ORIGIN,
        text("recipe", doc="JSON"),
        text("family", nullable=True, doc="of the search, or derived; null: the search has none of it"),
        NUMERICS,
        text("program", doc="digest"),
        VALUE_DIGEST,
        PROGRAM_JSON,
    ),
)
