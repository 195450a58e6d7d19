"""Every Program found in a search, with its lineage, verdicts and price."""

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, ORIGIN, VALUE_DIGEST
from overlayccl_core.tables.prices import PRICE_COLUMNS
from overlayccl_core.tables.table import Table, flag, integer, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

CANDIDATES = Table(
    name="candidates",
    row="one Program at one Case and direction",
    folder="[ablations/]problems/<problem>/search/<search>/",
    rule="search",
    version=4,
    minimum_rows=0,
    columns=(
        CASE,
        DIRECTION,
        text("candidate", doc="a known way's name, or found-<value_digest, shortened>"),
        text("search", doc="a file in config/searches; redeployed: chosen in another tree"),
        ORIGIN,
        text("parent", nullable=True, doc="value_digest; null: made from no other"),
        text("recipe", doc="JSON; a source that it begins with is in `sketches`"),
        text("family", doc="collectives with groups and depth; labels; numerics"),
        text("numerics", nullable=True, doc="null: not proven"),
        text("program", doc="digest"),
        VALUE_DIGEST,
        text("program_json", nullable=True, doc="of what was proven, or shown wrong"),
        integer("collectives", doc="issued per call"),
        integer("wire_bytes", doc="sent by one rank"),
        integer("peak_bytes", nullable=True, doc="null: not legal"),
        text("legality", doc="outcome"),
        text("equivalence", nullable=True, doc="outcome; null: not asked"),
        text("reason", doc="code of the deciding verdict"),
        text("message", doc="one sentence for people"),
        flag("elite", doc="the cheapest of its family but those shown wrong"),
        *PRICE_COLUMNS,
        FINGERPRINT,
    ),
)
