"""Capabilities of the deployment's library, found by trying."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

CAPABILITIES = Table(
    name="capabilities",
    row="one small call that was tried, or a large one that failed",
    folder="",
    rule="selftest",
    version=3,
    columns=(
        Column(name="operation", dtype=pl.String(), doc="collective"),
        Column(
            name="group_size",
            dtype=pl.Int64(),
            doc="ranks of a replica group; of a permute: number of senders",
        ),
        Column(
            name="stride",
            dtype=pl.Int64(),
            doc="ranks from a member of a group to the next; of a permute: to the receiver; 0: in no order",
        ),
        Column(name="dtype", dtype=pl.String(), doc="of its elements"),
        Column(name="payload_bytes", dtype=pl.Int64(), unit="bytes", doc="on one rank, at the larger side"),
        Column(name="supported", dtype=pl.Boolean(), doc="whether the library did it"),
        Column(name="evidence", dtype=pl.String(), doc="what was run and what came out"),
        FINGERPRINT,
    ),
)
