"""A table with its sidecar, as a run leaves it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import polars as pl

from overlayccl_core.configuration.settings import Settings, read
from overlayccl_core.tables.sidecar import write_sidecar
from overlayccl_core.tables.table import Table, write
from overlayccl_core.tables.table import read as read_table
from tests.rows import Row

REPOSITORY = Path(__file__).parents[2]
ROUNDS = 6  # of the probes


@cache
def settings() -> Settings:
    """Settings that ask for no more than the tree's tables hold."""
    configured = read(REPOSITORY / "config/config.yaml")
    return configured.changed(
        probe=configured.probe.changed(minimum_rounds=ROUNDS),
        bench=configured.bench.changed(minimum_rounds=12),
        train=configured.train.changed(minimum_steps=4, maximum_steps=8),
        confirm=configured.confirm.changed(minimum_rounds=ROUNDS, minimum_steps=4, maximum_steps=8),
    )


def put(table: Table, rows: Sequence[Row], path: Path, settings: str = "{}") -> None:
    """Write a table with its sidecar. settings: the part of them that its rule declares."""
    write(table, rows, path)
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    command = ("made", "up", "--settings", settings)
    write_sidecar(path, inputs=(), command=command, started=now, ended=now)


def changed(tree: Path, table: Table, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change the rows of a table, by its path without the suffix."""
    path = tree / f"{name}.parquet"
    put(table, change(read_table(table, path)).to_dicts(), path)
