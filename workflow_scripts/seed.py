"""Trace and prove every strategy of one Problem's library."""

from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import seed
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.seeds import SEEDS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table seeds of one Problem."""
    tables = seed.run(
        load(command.option("deployment")),
        command.read(CASES, command.option("problem")),
        command.read(CAPABILITIES),
        progress=command.say,
    )
    command.write({SEEDS: tables["seeds"]})


if __name__ == "__main__":
    run("seed", main, "deployment", "problem")
