"""Train the arms of one model for many steps."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.decided import Trained
from overlayccl_core.stages import longtrain
from overlayccl_core.tables.longrun import LONG_STAMPS, LONG_STEPS
from overlayccl_core.tables.steps import STAMPS, STEPS
from workflow_scripts.command import Command, run
from workflow_scripts.decided import decided


def main(command: Command) -> None:
    """Tables long_steps and long_stamps of one model."""
    name, partial = command.option("model"), Path(command.option("partial"))
    tables = longtrain.run(
        load(command.option("deployment")),
        Settings.from_part(command.option("settings")),
        decided(command),
        models.load(name),
        Trained(steps=command.read(STEPS), stamps=command.read(STAMPS)),
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write({LONG_STEPS: tables["long_steps"], LONG_STAMPS: tables["long_stamps"]})
    for row in tables["long_steps"]:
        forget(partial, longtrain.partial_rule(name, row["arm"], row["seed"]), command.outputs)


if __name__ == "__main__":
    run("longtrain", main, "deployment", "settings", "model", "problems", "partial", "code")
