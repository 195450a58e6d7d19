"""Fit cost models to what models chose, to the sweep and to as much of it; judge them on held-out Programs."""

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import weigh_probes
from overlayccl_core.tables.probing import ASKED_PROBES, COMPARED_PROBES, PROBE_CALLS, PROBING
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table probing."""
    tables = weigh_probes.run(
        Settings.from_part(command.option("settings")),
        command.read_all(ASKED_PROBES),
        command.read_all(PROBE_CALLS),
        command.read(COMPARED_PROBES),
        progress=command.say,
    )
    command.write({PROBING: tables["probing"]})


if __name__ == "__main__":
    run("weigh_probes", main, "settings")
