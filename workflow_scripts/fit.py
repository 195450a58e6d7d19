"""Fit the cost model and judge it on Programs that it has not seen."""

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import fit
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.theta import THETA
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables theta and fidelity."""
    settings = Settings.from_part(command.option("settings"))
    tables = fit.run(settings, command.read(PROBES), progress=command.say)
    command.write({THETA: tables["theta"], FIDELITY: tables["fidelity"]})


if __name__ == "__main__":
    run("fit", main, "settings")
