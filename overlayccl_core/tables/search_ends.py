"""The reason for every search's end, also without anything to search."""

from overlayccl_core.tables.candidate_columns import DIRECTION
from overlayccl_core.tables.table import Table, flag, integer, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

SEARCH_ENDS = Table(
    name="search_ends",
    row="one Case and direction",
    folder="[ablations/]problems/<problem>/search/<search>/",
    rule="search",
    version=3,
    columns=(
        text("case", doc="one row for every Case and direction"),
        DIRECTION,
        text("search", doc="a file in config/searches"),
        text(
            "why",
            values=(
                *("no_new_elite", "rounds", "programs", "seconds", "proposer_failed"),
                *("no_exchange", "no_base", "none_failed"),
            ),
            doc="no_new_elite: by itself; rounds, programs, seconds: that guard cut it; proposer_failed: what was "
            "searched until then stands; no_exchange: nothing to search, the reference sends nothing; no_base: "
            "nothing to search from, no strategy is right; none_failed: a second round, of a search whose sketches "
            "all ran",
        ),
        integer("proposals", doc="at a smaller Case too; 0: nothing was searched"),
        integer("programs", doc="priced at the Case itself"),
        integer("families", doc="of elites"),
        integer("sketched", doc="of the proposals: sketches"),
        integer("sketched_twice", doc="of these: known already, by their value_digest"),
        flag(
            "polished",
            nullable=True,
            doc="a sketch changed by rules is cheaper than the cheapest sketch; null: no sketch has a price",
        ),
        text("message", doc="one sentence for people, with the cheapest"),
        FINGERPRINT,
    ),
)
