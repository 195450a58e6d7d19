"""deploy: what was chosen stands, or something else takes its place, by the launches that chose nothing.

A Case is printed as it was confirmed. Where a rival took its place, the rival's own Programs are printed: its
module was timed and compared in those launches, the file was not. Where the rival is the framework's own, no file
has the Case. Needs no ranks.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.deployments.floor import Floor
from overlayccl_core.evidence.benched import benched, floor_of
from overlayccl_core.evidence.confirmed import (
    Headline,
    StepTables,
    add_pairs,
    deployed_row,
    headline_of,
    instead_at,
    split_rows,
)
from overlayccl_core.evidence.decided import Decided
from overlayccl_core.evidence.deployment_files import Printer, module_of
from overlayccl_core.evidence.predictions import Place, at, predictions
from overlayccl_core.evidence.splits import chosen_as
from overlayccl_core.evidence.verdict_rows import verdicts_of
from overlayccl_core.measuring.arms import use_text
from overlayccl_core.tables.deployed import Use
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import snakemake

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemTables:
    """The tables of one Problem. candidates: of all searches; may be empty. confirmed: this Problem's rows."""

    decided: Decided
    seeds: pl.DataFrame
    prices: pl.DataFrame
    candidates: pl.DataFrame
    shortlist: pl.DataFrame
    bench: pl.DataFrame
    verdicts: pl.DataFrame
    confirmed: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Rows of the tables `deployed` and `splits`; problem -> the source of its file, None: there is none."""

    deployed: list[Row]
    splits: list[Row]
    modules: Mapping[str, str | None]


def run(
    problems: Mapping[str, ProblemTables],
    steps: StepTables,
    probes: pl.DataFrame,
    library: str,
    *,
    printer: Printer,
    progress: Callable[[str], None],
) -> Deployed:
    """library, printer: as for the rule choose."""
    frames: dict[str | Path, pl.DataFrame] = {"probes": probes, "confirmed_steps": steps.confirmed_steps}
    frames |= {f"{name}: bench": tables.bench for name, tables in problems.items()}
    frames |= {f"{name}: confirmed": tables.confirmed for name, tables in problems.items()}
    fingerprint = one_fingerprint(frames, f"{snakemake()} --forcerun probe bench")
    headlines = _headlines(problems, steps)
    instead = instead_at((of.decided.choice for of in problems.values()), headlines)
    floor = floor_of(probes)
    rows = {name: _rows(of, floor, instead) for name, of in problems.items()}
    for row in (row for listed in rows.values() for row in listed if row["instead"]):
        progress(
            f"{row['case']} {row['direction']}: {use_text(row['instead'])} in place of {row['candidate']}"
        )
    return Deployed(
        deployed=[row for listed in rows.values() for row in listed],
        splits=[row for name, of in headlines.items() for row in split_rows(name, of, fingerprint or "")],
        modules={
            name: _module(name, of, rows[name], library, fingerprint or "", printer)
            for name, of in problems.items()
        },
    )


def records(made: Deployed, verdicts: Mapping[str, pl.DataFrame], library: str) -> dict[str, dict[str, Any]]:
    """problem -> what stands in deploy/<problem>.json: its rows of `deployed` with their verdicts, and `splits`.

    module: the sha256 of the file beside it; null: there is none.
    """
    return {
        problem: {
            "problem": problem,
            "library": library,
            "module": source and hashlib.sha256(source.encode()).hexdigest(),
            "deployed": [
                {**row, "verdicts": list(verdicts_of(row, verdicts[problem]))}
                for row in made.deployed
                if row["problem"] == problem
            ],
            "splits": made.splits,
        }
        for problem, source in made.modules.items()
    }


def _headlines(problems: Mapping[str, ProblemTables], steps: StepTables) -> dict[str, Headline]:
    """Of every model."""
    choices = [tables.decided.choice for tables in problems.values()]
    models = steps.confirmed_steps["model"].unique(maintain_order=True)
    return {model: headline_of(model, chosen_as(model, choices), steps) for model in models}


def _rows(tables: ProblemTables, floor: Floor, instead: Mapping[Place, str]) -> list[Row]:
    """The rows of `deployed` of a Problem."""
    predicted = predictions(tables.prices, tables.candidates)
    rows = [
        deployed_row(
            place,
            at(tables.decided.choice, place).row(0, named=True),
            at(tables.confirmed, place),
            listed,
            predicted,
            at(tables.verdicts, place),
            instead.get(place),
        )
        for place, listed in benched(tables.shortlist, tables.bench, floor).items()
    ]
    add_pairs(rows)
    return rows


def _module(
    problem: str,
    tables: ProblemTables,
    rows: Sequence[Row],
    library: str,
    fingerprint: str,
    printer: Printer,
) -> str | None:
    """The file that was confirmed, to the byte, where all in it stands."""
    if all(row["instead"] is None for row in rows):
        return tables.decided.module
    placed = list(_placed(tables.decided, rows))
    return (
        module_of(problem, library, fingerprint, printer, tables.seeds, tables.shortlist, placed)
        if placed
        else None
    )


def _placed(decided: Decided, rows: Iterable[Row]) -> Iterable[Row]:
    """case, direction and program of what a file is to hold."""
    for row in rows:
        if row["use"] != Use.FRAMEWORK:
            place = (row["case"], row["direction"])
            arms = at(decided.finalists, place).filter(pl.col("arm") == row["instead"])
            yield (at(decided.choice, place) if row["instead"] is None else arms).row(0, named=True)
