"""Proofs of every timed or trained Program, from its JSON form: its digests, and equality with its Problem."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.archiving.findings import Check, Finding, judged, wrong
from overlayccl_core.gates import equivalence
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.page import OF_PROGRAMS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import Table, read

PLACE, DIGESTS = ("case", "direction"), ("program", "value_digest")
OF_ONE = (*PLACE, "program", "program_json")  # rows equal in these share a Program


def proofs(tree: Path) -> Iterator[Finding]:
    """Check the Programs of every shortlist, then those missing there from other tables. Probes have no Problem."""
    for file in sorted(tree.glob(f"problems/*/{SHORTLIST.name}.parquet")):
        try:
            told = read(CASES, file.with_name(f"{CASES.name}.parquet")).iter_rows(named=True)
            cases = {one.id: one for one in map(catalog.case_from_row, told)}
            listed = _listed(file.parent.name, tree)
        except (ValueError, OSError) as error:
            yield wrong(Check.PROOFS, file.parent.name, str(error))
            continue
        for (case, direction), rows in listed.group_by(PLACE, maintain_order=True):
            yield from _proven(catalog.in_direction(cases[str(case)], Direction(direction)), rows)


def _listed(problem: str, tree: Path) -> pl.DataFrame:
    """Return the rows of a Problem's shortlist, and one row of every other Program that ran."""
    columns = (*OF_ONE, "candidate", "table")
    frames = [
        rows.with_columns(table=pl.lit("" if table == SHORTLIST else f" in {table.name}"))
        for table in OF_PROGRAMS  # the shortlist is the first of them
        for rows in _of_problem(problem, table, tree)
    ]
    alike = [frame.select(*columns, *({"value_digest"} & set(frame.columns))) for frame in frames]
    return pl.concat(alike, how="diagonal").unique(OF_ONE, keep="first", maintain_order=True)


def _of_problem(problem: str, table: Table, tree: Path) -> Iterator[pl.DataFrame]:
    """Yield a Problem's rows; a table outside of its folder names the Problem in a column."""
    folder = re.sub(r"<\w+>", "*", table.folder.replace("<problem>", problem))
    for file in sorted(tree.glob(f"{folder}{table.name}.parquet")):
        rows = read(table, file)
        yield rows if "<problem>" in table.folder else rows.filter(pl.col("problem") == problem)


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
