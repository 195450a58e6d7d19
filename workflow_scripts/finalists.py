"""Name the finalists of one Problem, and compare predicted with measured times."""

import json

from overlayccl_core.stages import finalists
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.shortlist import SHORTLIST
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables finalists and fidelity of one Problem."""
    problem = command.option("problem")
    tables = finalists.run(
        command.read(SEEDS, problem),
        command.read(SHORTLIST, problem),
        command.read(BENCH, problem),
        command.read(PRICES, problem),
        command.read_all(CANDIDATES, problem),
        command.read(PROBES),
        json.loads(command.option("trained")),
        progress=command.say,
    )
    command.write({FINALISTS: tables["finalists"], FIDELITY: tables["fidelity"]})


if __name__ == "__main__":
    run("finalists", main, "problem", "trained")
