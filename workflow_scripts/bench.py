"""Time the shortlist of one Problem."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import bench
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.shortlist import SHORTLIST
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table bench of one Problem."""
    problem, partial = command.option("problem"), Path(command.option("partial"))
    tables = bench.run(
        load(command.option("deployment")),
        Settings.from_part(command.option("settings")),
        command.read(SHORTLIST, problem),
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write({BENCH: tables["bench"]})
    forget(partial, bench.partial_rule(problem), command.outputs)


if __name__ == "__main__":
    run("bench", main, "deployment", "settings", "problem", "partial", "code")
