"""What ran at every site of every arm of a training model, as the modules themselves tell."""

import polars as pl

from overlayccl_core.tables.table import Column, Table

STAMPS = Table(
    name="stamps",
    version=1,
    columns=(
        Column(name="model", dtype=pl.String()),
        Column(name="microbatches", dtype=pl.Int64()),
        Column(name="arm", dtype=pl.String()),
        Column(name="site", dtype=pl.String(), doc="of the model's step"),
        Column(name="problem", dtype=pl.String()),
        Column(name="case", dtype=pl.String()),
        Column(name="direction", dtype=pl.String(), values=("forward", "backward")),
        Column(name="candidate", dtype=pl.String()),
        Column(name="program", dtype=pl.String(), doc="digest of the Program that ran"),
        Column(name="library", dtype=pl.String()),
        Column(name="library_version", dtype=pl.String()),
        Column(name="calls", dtype=pl.Int64(), doc="library calls per step"),
    ),
)
