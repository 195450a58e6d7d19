"""Every Program found in a search, with its lineage, verdicts and price."""

import polars as pl

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, ORIGIN, VALUE_DIGEST
from overlayccl_core.tables.prices import PRICE_COLUMNS
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

CANDIDATES = Table(
    name="candidates",
    row="one Program at one Case and direction",
    folder="problems/<problem>/search/<search>/",
    rule="search",
    version=4,
    minimum_rows=0,
    columns=(
        CASE,
        DIRECTION,
        Column(
            name="candidate", dtype=pl.String(), doc="a known way's name, or found-<value_digest, shortened>"
        ),
        Column(name="search", dtype=pl.String(), doc="a file in config/searches"),
        ORIGIN,
        Column(name="parent", dtype=pl.String(), nullable=True, doc="value_digest; null: made from no other"),
        Column(name="recipe", dtype=pl.String(), doc="JSON; a source that it begins with is in `sketches`"),
        Column(name="family", dtype=pl.String(), doc="collectives with groups and depth; labels; numerics"),
        Column(name="numerics", dtype=pl.String(), nullable=True, doc="null: not proven"),
        Column(name="program", dtype=pl.String(), doc="digest"),
        VALUE_DIGEST,
        Column(
            name="program_json", dtype=pl.String(), nullable=True, doc="of what was proven, or shown wrong"
        ),
        Column(name="collectives", dtype=pl.Int64(), doc="issued per call"),
        Column(name="wire_bytes", dtype=pl.Int64(), unit="bytes", doc="sent by one rank"),
        Column(name="peak_bytes", dtype=pl.Int64(), unit="bytes", nullable=True, doc="null: not legal"),
        Column(name="legality", dtype=pl.String(), doc="outcome"),
        Column(name="equivalence", dtype=pl.String(), nullable=True, doc="outcome; null: not asked"),
        Column(name="reason", dtype=pl.String(), doc="code of the deciding verdict"),
        Column(name="message", dtype=pl.String(), doc="one sentence for people"),
        Column(name="elite", dtype=pl.Boolean(), doc="the cheapest of its family but those shown wrong"),
        *PRICE_COLUMNS,
        FINGERPRINT,
    ),
)
