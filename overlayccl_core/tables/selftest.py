"""Checks before any timing."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

SELFTEST = Table(
    name="selftest",
    row="one check",
    folder="",
    rule="selftest",
    version=3,
    columns=(
        Column(name="check", dtype=pl.String(), doc="what was checked"),
        Column(name="operation", dtype=pl.String(), nullable=True, doc="collective; null: of none"),
        Column(
            name="group_size",
            dtype=pl.Int64(),
            nullable=True,
            doc="ranks of a replica group; of a permute: number of senders",
        ),
        Column(
            name="stride",
            dtype=pl.Int64(),
            nullable=True,
            doc="ranks from a member of a group to the next; of a permute: to the receiver; 0: in no order",
        ),
        Column(name="dtype", dtype=pl.String(), nullable=True, doc="of its elements; null: of none"),
        Column(
            name="payload_bytes",
            dtype=pl.Int64(),
            unit="bytes",
            nullable=True,
            doc="on one rank, at the larger side",
        ),
        Column(name="outcome", dtype=pl.String(), doc="whether it passed"),
        Column(name="detail", dtype=pl.String(), doc="what was seen"),
        FINGERPRINT,
    ),
)
