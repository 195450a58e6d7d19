"""What the cost model says of each seed, by term."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

US = ("predicted_us", "low_us", "high_us")
TERMS_US = {  # column -> what the term is of; the report says it too
    "launch_us": "the start of the module and of its graphs",
    "collectives_us": "library calls issued alone, with their bytes and waits",
    "amortization_us": "library calls issued while others are in flight",
    "copies_us": "local packing and unpacking",
    "network_us": "bytes through a node's network card, where there are several nodes",
}
PRICE_COLUMNS = tuple(
    Column(name=name, dtype=pl.Float64(), unit="us", nullable=True, doc=f"{of}; null: no price")
    for name, of in (dict.fromkeys(US, "all terms together") | TERMS_US).items()
)

PRICES = Table(
    name="prices",
    version=2,
    columns=(
        Column(name="case", dtype=pl.String()),
        Column(name="direction", dtype=pl.String(), values=("forward", "backward")),
        Column(name="strategy", dtype=pl.String()),
        Column(name="program", dtype=pl.String(), doc="digest"),
        Column(name="feasible", dtype=pl.Boolean()),
        Column(name="reason", dtype=pl.String(), doc="why it is not feasible or has no price; ok"),
        *PRICE_COLUMNS,
        FINGERPRINT,
    ),
)
