"""What is timed at each Case and direction, and why. No price: an equal list measures nothing anew."""

from collections.abc import Iterable
from enum import StrEnum

import polars as pl

from overlayccl_core.measuring.arms import BASELINES
from overlayccl_core.tables.candidate_columns import (
    CANDIDATE_KEY,
    NUMERICS,
    ORIGIN,
    PROGRAM_JSON,
    VALUE_DIGEST,
)
from overlayccl_core.tables.table import Column, Table


class Why(StrEnum):
    """Why a Program is timed that is no baseline."""

    SEED = "seed"
    BEST_PREDICTED = "best_predicted"
    FAMILY = "family"
    RANDOM = "random"
    OVERLAPS = "overlaps"
    NEXT_CHEAPEST = "next_cheapest"


def is_seed(why: Iterable[str]) -> bool:
    """Whether what is listed for these reasons is a strategy of the library: people wrote it."""
    return not {*BASELINES, Why.SEED}.isdisjoint(why)


SHORTLIST = Table(
    name="shortlist",
    row="one Program to time at one Case and direction",
    folder="problems/<problem>/",
    rule="shortlist",
    version=3,
    columns=(
        *CANDIDATE_KEY,
        Column(
            name="why",
            dtype=pl.List(pl.String()),
            values=(*BASELINES, *Why),
            doc="of the library: its roles, or seed; the others: how the search brought it",
        ),
        ORIGIN,
        Column(name="recipe", dtype=pl.String(), doc="JSON"),
        Column(name="family", dtype=pl.String(), nullable=True, doc="of the search; null: it has none of it"),
        NUMERICS,
        Column(name="program", dtype=pl.String(), doc="digest"),
        VALUE_DIGEST,
        PROGRAM_JSON,
    ),
)
