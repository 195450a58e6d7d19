"""Choose what is to be deployed of one Problem, and write it."""

import json

import polars as pl

from overlayccl_core.configuration.deployment import load
from overlayccl_core.evidence.deployment_files import printer_of
from overlayccl_core.stages import choose
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import STAMPS, STEPS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables verdicts and choice of one Problem; and chosen.py, the module that is confirmed."""
    problem, together = command.option("problem"), command.option("problems").split(",")
    tables = choose.Tables(
        seeds=command.read(SEEDS, problem),
        candidates=command.read_all(CANDIDATES, problem),
        shortlist=pl.concat([command.read(SHORTLIST, one) for one in together]),
        bench=pl.concat([command.read(BENCH, one) for one in together]),
        finalists=pl.concat([command.read(FINALISTS, one) for one in together]),
        probes=command.read(PROBES),
        steps=command.read_all(STEPS),
        stamps=command.read_all(STAMPS),
    )
    deployment = load(command.option("deployment"))
    trained = json.loads(command.option("trained"))
    chosen = choose.run(
        problem,
        deployment.library,
        tables,
        trained,
        printer=printer_of(deployment),
        progress=command.say,
    )
    command.write_text(".py", chosen.module)
    command.write({VERDICTS: chosen.verdicts, CHOICE: chosen.choice})


if __name__ == "__main__":
    run("choose", main, "deployment", "problem", "problems", "trained")
