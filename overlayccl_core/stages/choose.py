"""choose: the arm to deploy at each Case and direction (`evidence.contest`). Needs no ranks.

The rule runs for each Problem alone, so it also reads the tables that decide about Problems in the same steps. If
no model has a Case, the bench decides, and the verdict says that training is not applicable.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import load
from overlayccl_core.evidence.contest import ChoiceTables, Contest, TrainedIn
from overlayccl_core.evidence.deployment_files import Printer, module_of, printer_of
from overlayccl_core.evidence.verdict_rows import before_choice
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import STAMPS, STEPS

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Rows of the tables verdicts and choice; the source of the deployed module."""

    verdicts: list[Row]
    choice: list[Row]
    module: str


def main(job: RuleJob) -> None:
    """Write the tables verdicts and choice of one Problem, and chosen.py, the module to confirm."""
    of_all = (CANDIDATES, SHORTLIST, BENCH, FINALISTS, STEPS, STAMPS)
    of_one = {table.name: job.read(table) for table in (KNOWN_WAYS, PROBES)}
    tables = ChoiceTables(**of_one, **{table.name: job.read_all(table) for table in of_all})
    deployment = load(job.option("deployment"))
    chosen = run(
        job.problem,
        deployment.library,
        tables,
        json.loads(job.option("trained_by")),
        printer=printer_of(deployment),
        progress=job.say,
    )
    (module,) = job.outputs["module"]
    job.write_text(module, chosen.module)
    job.write({VERDICTS: chosen.verdicts, CHOICE: chosen.choice})


def run(
    problem: str,
    library: str,
    tables: ChoiceTables,
    trained: TrainedIn,
    *,
    printer: Printer,
    progress: Callable[[str], None],
) -> Chosen:
    """Choose for one Problem.

    Args:
        library: The deployment's, as its ranks call it.
        tables: Inputs of the choice.
        trained: Models as `nano m8`, of all Cases in `tables`.
        printer: Of the measured backend.
    """
    frames: dict[str | Path, pl.DataFrame] = {
        "bench": tables.bench,
        "probes": tables.probes,
        "steps": tables.steps,
    }
    fingerprint = one_fingerprint(frames, f"{snakemake()} --forcerun probe bench train")
    contest = Contest(tables, trained)
    verdicts, choices = before_choice(tables.known_ways, tables.candidates, tables.shortlist), []
    held: dict[Place, Row] = {}
    for place in contest.benched:
        if problem_of(place[0]) == problem:
            decided = contest.decided(place)
            verdicts += decided.verdicts
            choices.append(decided.choice)
            held[place] = decided.finalist
            progress(f"{' '.join(place)}: {decided.choice['candidate']}: {decided.reason}")
    module = module_of(problem, library, fingerprint or "", printer, tables.finalists, held)
    return Chosen(verdicts=verdicts, choice=choices, module=module)
