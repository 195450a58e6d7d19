"""Run the sketches of one search of one Problem once on the ranks."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import trial
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.trials import TRIALS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table trials of one search of one Problem."""
    problem, search = command.option("problem"), command.option("search")
    partial = Path(command.option("partial"))
    tables = trial.run(
        load(command.option("deployment")),
        search,
        command.read(CANDIDATES, problem),
        partial,
        progress=command.say,
        code=command.option("code"),
    )
    command.write({TRIALS: tables["trials"]})
    forget(partial, trial.partial_rule(problem, search), command.outputs)


if __name__ == "__main__":
    run("trial", main, "deployment", "problem", "search", "partial", "code")
