"""What the deployment's library can do, as found by trying."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

CAPABILITIES = Table(
    name="capabilities",
    row="one operation, group size and dtype",
    folder="",
    rule="selftest",
    version=1,
    columns=(
        Column(name="operation", dtype=pl.String(), doc="collective"),
        Column(name="group_size", dtype=pl.Int64(), doc="ranks of a replica group"),
        Column(name="dtype", dtype=pl.String(), doc="of its elements"),
        Column(name="payload_bytes", dtype=pl.Int64(), unit="bytes", doc="largest payload tried"),
        Column(name="supported", dtype=pl.Boolean(), doc="whether the library did it"),
        Column(name="evidence", dtype=pl.String(), doc="what was run and what came out"),
        FINGERPRINT,
    ),
)
