"""Compare predicted with measured times of one Problem."""

from overlayccl_core.stages import compare
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.seeds import SEEDS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table fidelity of one Problem."""
    problem = command.option("problem")
    found = compare.run(
        command.read(SEEDS, problem),
        command.read(PRICES, problem),
        command.read(BENCH, problem),
        progress=command.say,
    )
    command.write({FIDELITY: found["fidelity"]})


if __name__ == "__main__":
    run("compare", main, "problem")
