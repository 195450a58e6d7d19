"""Price every seed of one Problem."""

from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import price
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.theta import THETA
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table prices of one Problem."""
    tables = price.run(
        load(command.option("deployment")),
        command.read(SEEDS, command.option("problem")),
        command.read(THETA),
        command.read(FIDELITY),
        progress=command.say,
    )
    command.write({PRICES: tables["prices"]})


if __name__ == "__main__":
    run("price", main, "deployment", "problem")
