"""Time the Programs that the cost model is fitted on and judged by."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import probe
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probes import PROBES
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table probes."""
    partial = Path(command.option("partial"))
    tables = probe.run(
        load(command.option("deployment")),
        Settings.from_part(command.option("settings")),
        command.read(CAPABILITIES),
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write({PROBES: tables["probes"]})
    forget(partial, probe.PARTIAL_RULE, command.outputs)


if __name__ == "__main__":
    run("probe", main, "deployment", "settings", "partial", "code")
