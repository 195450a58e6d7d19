"""summary: proof, price and bench of each candidate, and the chosen one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.evidence.benched import Benched, TimesOfProblem, floor_of
from overlayccl_core.evidence.confirmed import ratio_columns
from overlayccl_core.evidence.predictions import Prediction, places, rows_at
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.known_ways import KNOWN_WAYS, WayStatus
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.summary import SUMMARY, Validity

Row = dict[str, Any]
OF_A_PROBLEM = (KNOWN_WAYS, PRICES, SHORTLIST, BENCH, CHOICE)
_MEASURED = (
    *("measured_us", "measured_low_us", "measured_high_us"),
    *("speedup", "speedup_low", "speedup_high", "repeat_rel_error"),
    *("algbw_gbps", "busbw_gbps", "floor_us"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTables(TimesOfProblem):
    """The tables of one Problem."""

    known_ways: pl.DataFrame
    choice: pl.DataFrame


def main(job: RuleJob) -> None:
    """Write the table summary."""
    problems = {
        problem: SummaryTables(
            **{table.name: job.read(table, problem) for table in OF_A_PROBLEM},
            candidates=job.read_all(CANDIDATES, problem),
        )
        for problem in job.problems
    }
    rows = run(
        load(job.option("deployment")), problems, job.read(PROBES), job.read(FIDELITY), progress=job.say
    )
    job.write({SUMMARY: rows})


def run(
    deployment: Deployment,
    problems: Mapping[str, SummaryTables],
    probes: pl.DataFrame,
    fidelity: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `summary`: of each Case and direction with a choice, known ways before finds."""
    frames: dict[str | Path, pl.DataFrame] = {"probes": probes, "fidelity": fidelity}
    frames |= {f"{name}: bench": tables.bench for name, tables in problems.items()}
    one_fingerprint(frames, f"{snakemake()} --forcerun probe bench")
    floor = floor_of(probes)
    rows = [row for tables in problems.values() for row in _problem_rows(tables, floor)]
    invalid = [f"{row['case']} {row['candidate']}" for row in rows if row["validity"] == Validity.INVALID]
    progress(f"{deployment.name}: {len(rows)} candidates of {len(problems)} problems")
    if invalid:
        progress(f"below the physical floor, so not valid: {', '.join(invalid)}")
    if any(row["disturbed"] for row in rows):
        progress("others took CPU time while candidates ran: measure again on a quiet machine")
    return rows


def _problem_rows(tables: SummaryTables, floor: Floor) -> list[Row]:
    predicted = tables.predictions()
    timed = tables.benched(floor)
    rows = []
    for place in places(tables.shortlist):
        chosen = rows_at(tables.choice, place).row(0, named=True)
        by_program = {one.program.digest: one for one in timed[place]}
        for listed in _listed(place, tables):
            one, price = by_program.get(listed["program"]), predicted.get((*place, listed["program"]))
            rows.append(_row(place, listed, price, one, chosen))
    return rows


def _listed(place: Place, tables: SummaryTables) -> list[Row]:
    """Return every known way, even if not applicable, then the rest of the shortlist."""
    ways = [
        {**row, "candidate": row["strategy"], "proof": row["equivalence"] or row["reason"]}
        for row in rows_at(tables.known_ways, place).iter_rows(named=True)
    ]
    known = {row["program"] for row in ways}
    finds = [
        {**row, "role": "found", "status": WayStatus.PROGRAM, "proof": Outcome.PASS}
        for row in rows_at(tables.shortlist, place).iter_rows(named=True)
        if row["program"] not in known
    ]
    return [*ways, *finds]


def _row(place: Place, listed: Row, price: Prediction | None, one: Benched | None, chosen: Row) -> Row:
    """Return a row. Equal Programs have equal figures; the deployed one is known by its Program."""
    is_chosen = listed["program"] is not None and listed["program"] == chosen["program"]
    return {
        "problem": problem_of(place[0]),
        "case": place[0],
        "direction": place[1],
        **{key: listed[key] for key in ("candidate", "role", "status", "proof", "numerics", "program")},
        "predicted_us": price.us if price else None,
        "predicted_low_us": price.low_us if price else None,
        "predicted_high_us": price.high_us if price else None,
        **(measured_columns(one) if one else dict.fromkeys(_MEASURED) | {"validity": Validity.UNMEASURED}),
        "chosen": is_chosen,
        "disturbed": one.timed.disturbed if one and one.timed else None,
        "fingerprint": one.timed.fingerprint if one and one.timed else None,
    }


def measured_columns(one: Benched) -> Row:
    """Return a Program's bench results. An invalid time has no speed-up: it is never a win."""
    if one.timed is None:
        return dict.fromkeys(_MEASURED) | {"floor_us": one.floor_us, "validity": Validity.UNMEASURED}
    estimate, ratio = one.timed.estimate, one.speedup
    low, high = estimate.interval()
    algbw, busbw = catalog.bandwidths(one.program.problem.case, estimate.value)
    return {
        "measured_us": estimate.value,
        "measured_low_us": low,
        "measured_high_us": high,
        "repeat_rel_error": one.timed.repeat_error,
        "floor_us": one.floor_us,
        "validity": Validity.VALID if one.verdict.passed else Validity.INVALID,
        **ratio_columns("speedup", ratio),
        "algbw_gbps": algbw,
        "busbw_gbps": busbw,
    }
