"""Time what is deployed again, beside what needs no search, in launches that choose nothing."""

import json
from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.decided import Trained
from overlayccl_core.stages import confirm
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from workflow_scripts.command import Command, run
from workflow_scripts.decided import decided


def main(command: Command) -> None:
    """Tables confirmed, confirmed_steps and confirmed_stamps."""
    partial, names = Path(command.option("partial")), json.loads(command.option("models"))
    tables = confirm.run(
        load(command.option("deployment")),
        Settings.from_part(command.option("settings")),
        decided(command),
        [models.load(name) for name in names],
        Trained(steps=command.read_all(STEPS), stamps=command.read_all(STAMPS)),
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write(
        {
            CONFIRMED: tables["confirmed"],
            CONFIRMED_STEPS: tables["confirmed_steps"],
            CONFIRMED_STAMPS: tables["confirmed_stamps"],
        }
    )
    forget(partial, f"{confirm.RULE}-*", command.outputs)


if __name__ == "__main__":
    run("confirm", main, "deployment", "settings", "problems", "models", "partial", "code")
