"""What was chosen of each Problem, as the rules that train or time it again read it."""

from overlayccl_core.evidence.decided import Decided
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from workflow_scripts.command import Command


def decided(command: Command) -> dict[str, Decided]:
    """Of each of the option `problems`."""
    return {
        problem: Decided(
            finalists=command.read(FINALISTS, problem),
            choice=command.read(CHOICE, problem),
            module=command.read_text(f"problems/{problem}/chosen.py"),
        )
        for problem in command.option("problems").split(",")
    }
