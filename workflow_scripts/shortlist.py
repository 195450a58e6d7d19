"""List what is timed of one Problem."""

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import shortlist
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.shortlist import SHORTLIST
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table shortlist of one Problem."""
    problem = command.option("problem")
    tables = shortlist.run(
        Settings.from_part(command.option("settings")),
        command.read(SEEDS, problem),
        command.read(PRICES, problem),
        command.read_all(CANDIDATES, problem),
        backend_of(load(command.option("deployment"))).emit,
        progress=command.say,
    )
    command.write({SHORTLIST: tables["shortlist"]})


if __name__ == "__main__":
    run("shortlist", main, "deployment", "settings", "problem")
