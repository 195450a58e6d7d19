"""What the cost model says of each seed, by term."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

US = ("predicted_us", "low_us", "high_us")
TERMS_US = ("launch_us", "collectives_us", "amortization_us", "copies_us", "network_us")

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
        *(
            Column(name=name, dtype=pl.Float64(), unit="us", nullable=True, doc="null: no price")
            for name in (*US, *TERMS_US)
        ),
        FINGERPRINT,
    ),
)
