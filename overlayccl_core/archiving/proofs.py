"""Proofs of every timed or trained Program, from its JSON form: its digests, and equality with its Problem."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.archiving.findings import Check, Finding, judged, wrong
from overlayccl_core.gates import equivalence
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import read

PLACE, DIGESTS = ("case", "direction"), ("program", "value_digest")
OF_ONE = (*PLACE, "program", "program_json")  # rows equal in these share a Program


def proofs(tree: Path) -> Iterator[Finding]:
    """Check the Programs of every shortlist, then those missing there from other tables. Probes have no Problem."""
    for file in sorted(tree.glob(f"problems/*/{SHORTLIST.name}.parquet")):
        try:
            told = read(CASES, file.with_name(f"{CASES.name}.parquet")).iter_rows(named=True)
            cases = {one.id: one for one in map(catalog.case_from_row, told)}
            listed = _listed(file, tree)
        except (ValueError, OSError) as error:
            yield wrong(Check.PROOFS, file.parent.name, str(error))
            continue
        for (case, direction), rows in listed.group_by(PLACE, maintain_order=True):
            yield from _proven(catalog.in_direction(cases[str(case)], Direction(direction)), rows)


def _listed(shortlist: Path, tree: Path) -> pl.DataFrame:
    """Return the rows of a Problem's shortlist, and one row of every other Program that ran."""
    frames = [read(SHORTLIST, shortlist).with_columns(table=pl.lit(""))]
    for table in (BENCH, FINALISTS):
        if (file := shortlist.with_name(f"{table.name}.parquet")).exists():
            frames.append(read(table, file).with_columns(table=pl.lit(f" in {table.name}")))
    if (file := tree / f"{CONFIRMED.name}.parquet").exists():
        confirmed = read(CONFIRMED, file).filter(pl.col("problem") == shortlist.parent.name)
        frames.append(confirmed.with_columns(table=pl.lit(f" in {CONFIRMED.name}")))
    columns = (*OF_ONE, "candidate", "table")
    alike = [frame.select(*columns, *({"value_digest"} & set(frame.columns))) for frame in frames]
    return pl.concat(alike, how="diagonal").unique(OF_ONE, keep="first", maintain_order=True)


def _proven(problem: Problem, rows: pl.DataFrame) -> Iterator[Finding]:
    reference = catalog.reference_program(problem)
    bound = equivalence.lossy_bound_of(catalog.developer_program(problem), reference)
    for row in rows.iter_rows(named=True):
        subject = f"{row['case']} {row['direction']} {row['candidate']}{row['table']}"
        try:
            program = loads(row["program_json"])
        except ValueError as error:
            yield wrong(Check.PROOFS, subject, str(error))
            continue
        verdict = equivalence.prove(program, reference, lossy_bound=bound)
        why = "" if verdict.passed else f"{verdict.outcome.value} ({verdict.reason.value}): {verdict.message}"
        if not _is(row, program.digest, program.value_digest):
            why = "it is another Program than its digest names"
        yield judged(Check.PROOFS, subject, why)


def _is(row: dict[str, Any], *digests: str) -> bool:
    """Return whether a row names these digests; only a shortlist has both."""
    return all(row[name] in (None, digest) for name, digest in zip(DIGESTS, digests, strict=True))
