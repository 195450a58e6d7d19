"""Agreement of measured tables: equal lengths in a row, equal counts of an arm everywhere, and one machine."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from overlayccl_core.archiving.findings import Check, Finding, guarded, judged
from overlayccl_core.evidence.redeployment import KEPT_THETA
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.page import TIMED, TRAINED
from overlayccl_core.tables.table import read

ARM = ("model", "microbatches", "arm")
OF_AN_ARM = ("matmuls", "matmul_digest", "collectives", "peak_memory_bytes")  # equal in all its steps
FINGERPRINT = "fingerprint"  # column of every measured table


def consistent(tree: Path, machine: str) -> Iterator[Finding]:
    """Check each measured table of a results tree, and all of them together. machine: the expected fingerprint."""
    for table in (*TIMED, *TRAINED):
        as_many = _samples if table in TIMED else _losses
        for file in sorted(tree.rglob(f"{table.name}.parquet")):
            name = file.relative_to(tree).as_posix()
            yield from guarded(Check.CONSISTENT, name, _found(name, as_many(read(table, file))))
    yield from guarded(Check.CONSISTENT, "arms", _found("arms", _arms(tree)))
    yield from guarded(Check.CONSISTENT, "machine", _found("machine", _machines(tree, machine)))


def _found(subject: str, odd: Iterator[str]) -> Iterator[Finding]:
    yield judged(Check.CONSISTENT, subject, next(odd, ""))


def _samples(rows: pl.DataFrame) -> Iterator[str]:
    samples, ranks = (pl.col(name).list.len() for name in ("samples_us", "slowest_rank"))
    for row in rows.filter((samples != pl.col("rounds")) | (ranks != pl.col("rounds"))).iter_rows(named=True):
        of = f"{len(row['samples_us'])} samples of {len(row['slowest_rank'])} ranks"
        yield f"program {row['program']}, launch {row['launch']}: {row['rounds']} rounds, {of}"


def _losses(rows: pl.DataFrame) -> Iterator[str]:
    """Every step has a loss, cold ones included, unless it is idle, or no rank computes one in any of the model."""
    cold, steps, losses = (pl.col(name).list.len() for name in ("cold_us", "steps_us", "losses"))
    computed = losses.max().over("model") != 0
    wanted = pl.when(pl.col("purpose") == Purpose.IDLE).then(0).otherwise(cold + steps)
    for row in rows.filter(computed & (losses != wanted)).iter_rows(named=True):
        of = f"{len(row['cold_us'])} cold and {len(row['steps_us'])} timed steps, {len(row['losses'])} losses"
        yield f"{_named(row, (*ARM, 'launch', 'purpose'))}: {of}"


def _arms(tree: Path) -> Iterator[str]:
    """An arm has the same counts wherever `all` trains it."""
    tables = [table for table in TRAINED if table.rule in rules(ALL)]
    files = ((table, file) for table in tables for file in tree.rglob(f"{table.name}.parquet"))
    rows = [read(table, file).select(*ARM, *OF_AN_ARM) for table, file in files]
    for name in OF_AN_ARM if rows else ():
        told = pl.concat(rows).drop_nulls(name).group_by(ARM, maintain_order=True).agg(pl.col(name).unique())
        for row in told.filter(pl.col(name).list.len() > 1).iter_rows(named=True):
            yield f"{_named(row, ARM)}: {name} is {' and '.join(map(str, sorted(row[name])))}"


def _machines(tree: Path, machine: str) -> Iterator[str]:
    """All but what was copied out of another tree, for a redeployment, is of one machine."""
    for file in sorted({*tree.rglob("*.parquet")} - {tree / KEPT_THETA}):
        if FINGERPRINT in pl.read_parquet_schema(file):
            told = set(pl.read_parquet(file, columns=[FINGERPRINT])[FINGERPRINT].drop_nulls())
            for other in sorted(told - {machine}):
                yield f"{file.relative_to(tree)} is of {other}, where all is said to be of {machine}"


def _named(row: dict[str, object], names: Sequence[str]) -> str:
    return " ".join(f"{name} {row[name]}" for name in names)
