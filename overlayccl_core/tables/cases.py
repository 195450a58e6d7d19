"""The Cases of one Problem."""

import polars as pl

from overlayccl_core.tables.candidate_columns import PROBLEM
from overlayccl_core.tables.table import Column, Table

CASES = Table(
    name="cases",
    row="one Case",
    folder="problems/<problem>/",
    rule="cases",
    version=2,
    columns=(
        Column(name="case", dtype=pl.String(), doc="readable id"),
        PROBLEM,
        Column(name="ranks", dtype=pl.Int64(), doc="N of the Problem"),
        Column(name="groups", dtype=pl.Int64(), doc="how many at once"),
        Column(name="strided", dtype=pl.Boolean(), doc="groups of ranks a stride apart"),
        Column(name="ranks_per_node", dtype=pl.Int64(), doc="equal to ranks: one tier"),
        Column(name="uniform", dtype=pl.Boolean(), doc="all ranks compile one graph"),
        Column(name="dtype", dtype=pl.String(), doc="of the elements"),
        Column(name="parameters", dtype=pl.String(), doc="JSON"),
        Column(name="payload_bytes", dtype=pl.Int64(), unit="bytes", doc="per rank"),
    ),
)
