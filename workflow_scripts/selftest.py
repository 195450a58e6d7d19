"""Check the deployment's ranks and find out what its library can do."""

from pathlib import Path

from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import selftest
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.selftest import SELFTEST
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables selftest and capabilities."""
    tables = selftest.run(
        load(command.option("deployment")), Path(command.option("partial")), progress=command.say
    )
    command.write({SELFTEST: tables["selftest"], CAPABILITIES: tables["capabilities"]})


if __name__ == "__main__":
    run("selftest", main, "deployment", "partial")
