"""Write down the Cases of one Problem."""

from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import cases
from overlayccl_core.tables.cases import CASES
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table cases of one Problem."""
    tables = cases.run(
        Settings.from_part(command.option("settings")),
        load(command.option("deployment")),
        command.option("problem"),
        progress=command.say,
    )
    command.write({CASES: tables["cases"]})


if __name__ == "__main__":
    run("cases", main, "deployment", "settings", "problem")
