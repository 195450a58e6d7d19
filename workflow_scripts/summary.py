"""Put proof, price, measurement and choice side by side."""

import json

import polars as pl

from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import summary
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from overlayccl_core.tables.summary import SUMMARY
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables summary, deployed and splits; deploy/<problem>.json of every Problem."""
    deployment = load(command.option("deployment"))
    confirmed = command.read(CONFIRMED)
    problems = {
        problem: summary.ProblemTables(
            seeds=command.read(SEEDS, problem),
            prices=command.read(PRICES, problem),
            candidates=command.read_all(CANDIDATES, problem),
            shortlist=command.read(SHORTLIST, problem),
            bench=command.read(BENCH, problem),
            choice=command.read(CHOICE, problem),
            verdicts=command.read(VERDICTS, problem),
            confirmed=confirmed.filter(pl.col("problem") == problem),
        )
        for problem in command.option("problems").split(",")
    }
    tables = summary.run(
        deployment,
        problems,
        summary.StepTables(
            steps=command.read_all(STEPS),
            stamps=command.read_all(STAMPS),
            confirmed_steps=command.read(CONFIRMED_STEPS),
            confirmed_stamps=command.read(CONFIRMED_STAMPS),
        ),
        command.read(PROBES),
        command.read(FIDELITY),
        progress=command.say,
    )
    verdicts = {problem: of.verdicts for problem, of in problems.items()}
    for problem, record in summary.records(tables, verdicts, deployment.library).items():
        command.write_text(f"deploy/{problem}.json", json.dumps(record, indent=1, sort_keys=True) + "\n")
    command.write({SUMMARY: tables["summary"], DEPLOYED: tables["deployed"], SPLITS: tables["splits"]})


if __name__ == "__main__":
    run("summary", main, "deployment", "problems")
