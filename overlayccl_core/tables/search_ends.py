"""The reason for every search's end, also without anything to search."""

import polars as pl

from overlayccl_core.tables.candidate_columns import DIRECTION
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

SEARCH_ENDS = Table(
    name="search_ends",
    row="one Case and direction",
    folder="problems/<problem>/search/<search>/",
    rule="search",
    version=3,
    columns=(
        Column(name="case", dtype=pl.String(), doc="one row for every Case and direction"),
        DIRECTION,
        Column(name="search", dtype=pl.String(), doc="a file in config/searches"),
        Column(
            name="why",
            dtype=pl.String(),
            values=(
                *("no_new_elite", "rounds", "programs", "seconds", "proposer_failed"),
                *("no_exchange", "no_base", "none_failed"),
            ),
            doc="no_new_elite: by itself; rounds, programs, seconds: that guard cut it; proposer_failed: what was "
            "searched until then stands; no_exchange: nothing to search, the reference sends nothing; no_base: "
            "nothing to search from, no strategy is right; none_failed: a second round, of a search whose sketches "
            "all ran",
        ),
        Column(name="proposals", dtype=pl.Int64(), doc="at a smaller Case too; 0: nothing was searched"),
        Column(name="programs", dtype=pl.Int64(), doc="priced at the Case itself"),
        Column(name="families", dtype=pl.Int64(), doc="of elites"),
        Column(name="sketched", dtype=pl.Int64(), doc="of the proposals: sketches"),
        Column(name="sketched_twice", dtype=pl.Int64(), doc="of these: known already, by their value_digest"),
        Column(
            name="polished",
            dtype=pl.Boolean(),
            nullable=True,
            doc="a sketch changed by rules is cheaper than the cheapest sketch; null: no sketch has a price",
        ),
        Column(name="message", dtype=pl.String(), doc="one sentence for people, with the cheapest"),
        FINGERPRINT,
    ),
)
