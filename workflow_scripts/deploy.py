"""Publish what stands after the launches that chose nothing, or what takes its place."""

import json

import polars as pl

from overlayccl_core.configuration.deployment import load
from overlayccl_core.evidence.deployment_files import printer_of
from overlayccl_core.evidence.standing import StepTables
from overlayccl_core.stages import deploy
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.published import FOLDER, publish
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from workflow_scripts.command import Command, run
from workflow_scripts.decided import decided


def main(command: Command) -> None:
    """Tables deployed and splits; of every Problem deploy/<problem>.json, and .py where anything is deployed."""
    deployment = load(command.option("deployment"))
    confirmed = command.read(CONFIRMED)
    problems = {
        problem: deploy.ProblemTables(
            decided=of,
            prices=command.read(PRICES, problem),
            candidates=command.read_all(CANDIDATES, problem),
            shortlist=command.read(SHORTLIST, problem),
            bench=command.read(BENCH, problem),
            verdicts=command.read(VERDICTS, problem),
            confirmed=confirmed.filter(pl.col("problem") == problem),
        )
        for problem, of in decided(command).items()
    }
    steps = StepTables(
        steps=command.read_all(STEPS),
        stamps=command.read_all(STAMPS),
        confirmed_steps=command.read(CONFIRMED_STEPS),
        confirmed_stamps=command.read(CONFIRMED_STAMPS),
    )
    made = deploy.run(
        problems,
        steps,
        command.read(PROBES),
        deployment.library,
        printer=printer_of(deployment),
        progress=command.say,
    )
    verdicts = {problem: of.verdicts for problem, of in problems.items()}
    for problem, record in deploy.records(made, verdicts, deployment.library).items():
        path = command.output(f"{FOLDER}/{problem}.json")
        publish(path.with_suffix(".py"), made.modules[problem], command.say)
        command.write_text(f"{FOLDER}/{problem}.json", json.dumps(record, indent=1, sort_keys=True) + "\n")
    command.write({DEPLOYED: made.deployed, SPLITS: made.splits})


if __name__ == "__main__":
    run("deploy", main, "deployment", "problems")
