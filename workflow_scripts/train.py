"""Train one model's arms."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import train
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.steps import STAMPS, STEPS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables steps and stamps of one model."""
    name, partial = command.option("model"), Path(command.option("partial"))
    tables = train.run(
        load(command.option("deployment")),
        Settings.from_part(command.option("settings")),
        models.load(name),
        {problem: command.read(FINALISTS, problem) for problem in command.option("problems").split(",")},
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write({STEPS: tables["steps"], STAMPS: tables["stamps"]})
    forget(partial, train.partial_rule(name), command.outputs)


if __name__ == "__main__":
    run("train", main, "deployment", "settings", "model", "problems", "partial", "code")
