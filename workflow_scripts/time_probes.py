"""Time the sweep and what models chose, in one launch."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import time_probes
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probing import CHOSEN_PROBES, COMPARED_PROBES
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table compared_probes."""
    partial = Path(command.option("partial"))
    tables = time_probes.run(
        load(command.option("deployment")),
        Settings.from_part(command.option("settings")),
        command.read(CAPABILITIES),
        command.read_all(CHOSEN_PROBES),
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write({COMPARED_PROBES: tables["compared_probes"]})
    forget(partial, time_probes.PARTIAL_RULE, command.outputs)


if __name__ == "__main__":
    run("time_probes", main, "deployment", "settings", "partial", "code")
