"""deploy: the choice stands, or something else takes its place, by the launches that chose nothing.

If all stands, the file is the confirmed one, to the byte. If a rival took the place of a Case, the file has the
rival's own Programs there. They ran, too: the rule confirm decides the same by `standing.placed`, prints the same
file by `file_of`, and checks its values on the ranks before it writes its tables. If the rival is the framework's
own, no file has the Case. Needs no ranks.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import load
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.evidence.benched import TimesOfProblem, floor_of
from overlayccl_core.evidence.choices import ProblemChoice, choices_of, deployed_rows
from overlayccl_core.evidence.confirmed import add_pairs, deployed_row, split_rows
from overlayccl_core.evidence.deployment_files import Printer, file_of, printer_of
from overlayccl_core.evidence.predictions import rows_at
from overlayccl_core.evidence.standing import StepTables, headlines_of, placed
from overlayccl_core.evidence.verdict_rows import verdicts_of
from overlayccl_core.measuring.arms import use_text
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.published import publish
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS

Row = dict[str, Any]
# Columns of `deployed` about the file; all others are about the choice.
OF_FILE = ("problem", "case", "direction", "trained_in", "use", "instead", "in_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployTables(TimesOfProblem):
    """The tables of one Problem. confirmed: this Problem's rows."""

    decided: ProblemChoice
    verdicts: pl.DataFrame
    confirmed: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOutputs:
    """Rows of the tables `deployed` and `splits`; problem -> the source of its file, None without one."""

    deployed: list[Row]
    splits: list[Row]
    modules: Mapping[str, str | None]


def main(job: RuleJob) -> None:
    """Write the tables deployed and splits; per Problem deploy/<problem>.json, and .py if anything is deployed."""
    deployment = load(job.option("deployment"))
    confirmed = job.read(CONFIRMED)
    problems = {
        problem: DeployTables(
            decided=of,
            **{table.name: job.read(table, problem) for table in (PRICES, SHORTLIST, BENCH, VERDICTS)},
            candidates=job.read_all(CANDIDATES, problem),
            confirmed=confirmed.filter(pl.col("problem") == problem),
        )
        for problem, of in choices_of(job).items()
    }
    steps = StepTables(
        steps=job.read_all(STEPS),
        stamps=job.read_all(STAMPS),
        confirmed_steps=job.read(CONFIRMED_STEPS),
        confirmed_stamps=job.read(CONFIRMED_STAMPS),
    )
    made = run(
        problems,
        steps,
        job.read(PROBES),
        deployment.library,
        printer=printer_of(deployment),
        progress=job.say,
    )
    verdicts = {problem: of.verdicts for problem, of in problems.items()}
    paths = {path.stem: path for path in job.outputs["records"]}
    for problem, record in records(made, verdicts, deployment.library).items():
        publish(paths[problem].with_suffix(".py"), made.modules[problem], job.say)
        job.write_text(paths[problem], json.dumps(record, indent=1, sort_keys=True) + "\n")
    job.write({DEPLOYED: made.deployed, SPLITS: made.splits})


def run(
    problems: Mapping[str, DeployTables],
    steps: StepTables,
    probes: pl.DataFrame,
    library: str,
    *,
    printer: Printer,
    progress: Callable[[str], None],
) -> DeployOutputs:
    """Return the tables and files to deploy. library, printer: as for the rule choose."""
    frames: dict[str | Path, pl.DataFrame] = {"probes": probes, "confirmed_steps": steps.confirmed_steps}
    frames |= {f"{name}: bench": tables.bench for name, tables in problems.items()}
    frames |= {f"{name}: confirmed": tables.confirmed for name, tables in problems.items()}
    fingerprint = one_fingerprint(frames, f"{snakemake()} --forcerun probe bench")
    choices = [of.decided.choice for of in problems.values()]
    headlines = headlines_of(choices, steps)
    confirmed = pl.concat(of.confirmed for of in problems.values())
    instead = placed([of.decided for of in problems.values()], confirmed, headlines)
    floor = floor_of(probes)
    rows = {name: _rows(of, floor, instead) for name, of in problems.items()}
    for row in (row for listed in rows.values() for row in listed if row["instead"]):
        progress(
            f"{row['case']} {row['direction']}: {use_text(row['instead'])} in place of {row['candidate']}"
        )
    return DeployOutputs(
        deployed=[row for listed in rows.values() for row in listed],
        splits=[row for name, of in headlines.items() for row in split_rows(name, of, fingerprint or "")],
        modules={
            name: file_of(name, library, fingerprint or "", printer, of.decided, instead)
            for name, of in problems.items()
        },
    )


def records(
    made: DeployOutputs, verdicts: Mapping[str, pl.DataFrame], library: str
) -> dict[str, dict[str, Any]]:
    """Return problem -> content of deploy/<problem>.json: its rows of `deployed`, and `splits`.

    module: the sha256 of the file beside it; null without one. chosen: all facts about the choice at a Case and
    direction, with its verdicts, even if something else takes its place.
    """
    return {
        problem: {
            "problem": problem,
            "library": library,
            "module": source and hashlib.sha256(source.encode()).hexdigest(),
            "deployed": [
                {name: row[name] for name in OF_FILE}
                | {
                    "chosen": {name: row[name] for name in row.keys() - set(OF_FILE)}
                    | {"verdicts": list(verdicts_of(row, verdicts[problem]))}
                }
                for row in made.deployed
                if row["problem"] == problem
            ],
            "splits": made.splits,
        }
        for problem, source in made.modules.items()
    }


def _rows(tables: DeployTables, floor: Floor, instead: Mapping[Place, str]) -> list[Row]:
    """Return the rows of `deployed` of a Problem."""
    predicted = tables.predictions()
    in_file = deployed_rows(tables.decided, instead)
    rows = [
        deployed_row(
            place,
            rows_at(tables.decided.choice, place).row(0, named=True),
            rows_at(tables.confirmed, place),
            listed,
            predicted,
            rows_at(tables.verdicts, place),
            instead.get(place),
            in_file.get(place),
        )
        for place, listed in tables.benched(floor).items()
    ]
    add_pairs(rows)
    return rows
