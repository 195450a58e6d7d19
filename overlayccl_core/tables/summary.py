"""One row per Case, direction and candidate: proof, price, bench, validity, and which one was chosen."""

from dataclasses import replace
from enum import StrEnum

import polars as pl

from overlayccl_core.tables.candidate_columns import (
    CANDIDATE_KEY,
    NUMERICS_OR_NULL,
    PROBLEM,
    ratio,
    us,
)
from overlayccl_core.tables.known_ways import WayStatus
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL, REPEAT_ERROR


class Validity(StrEnum):
    """Whether a measured time is physically possible."""

    VALID = "valid"
    INVALID = "invalid"  # below the physical floor
    UNMEASURED = "unmeasured"


def _number(name: str, unit: str = "", doc: str = "") -> Column:
    return Column(name=name, dtype=pl.Float64(), unit=unit, nullable=True, doc=doc)


SUMMARY = Table(
    name="summary",
    row="one candidate at one Case and direction",
    folder="",
    rule="summary",
    version=6,
    columns=(
        PROBLEM,
        *CANDIDATE_KEY,
        Column(
            name="role",
            dtype=pl.String(),
            doc="developer, single_graph, hand_bundled, other (known ways) or found",
        ),
        Column(
            name="status",
            dtype=pl.String(),
            values=tuple(WayStatus),
            doc="what a strategy became here",
        ),
        Column(name="proof", dtype=pl.String(), doc="outcome of the equivalence gate, or why it did not run"),
        NUMERICS_OR_NULL,
        Column(name="program", dtype=pl.String(), nullable=True, doc="digest; null: there is none"),
        us("predicted_us", "of a pass; null: no price"),
        us("predicted_low_us", "8 true times of 10 lie above this and below the next"),
        us("predicted_high_us", "as the one before"),
        us("measured_us", "of a pass in the bench; null: not timed"),
        us("measured_low_us", "lower end of its 95% interval"),
        us("measured_high_us", "upper end of its 95% interval"),
        *ratio(
            "speedup",
            "developer's time over this one's in the bench; the fastest in a bench look faster than they are",
        ),
        replace(REPEAT_ERROR, nullable=True),
        _number("algbw_gbps", "GB/s", "payload over time"),
        _number("busbw_gbps", "GB/s", "algbw scaled to the load of the links"),
        us("floor_us", "no time below this can be true"),
        Column(
            name="validity",
            dtype=pl.String(),
            values=tuple(Validity),
            doc="can the time be true?",
        ),
        Column(name="chosen", dtype=pl.Boolean(), doc="what was chosen for this Case and direction"),
        Column(
            name="disturbed",
            dtype=pl.Boolean(),
            nullable=True,
            doc="others took CPU time in the launches measured; null: there are none",
        ),
        FINGERPRINT_OR_NULL,
    ),
)
