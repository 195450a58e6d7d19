"""Put the losses of all long courses into one table, and judge them."""

from overlayccl_core.evidence.decided import Decided
from overlayccl_core.stages import losses
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.longrun import CURVES, LONG_STAMPS, LONG_STEPS, LOSSES
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables losses and curves."""
    problems = [
        Decided(finalists=command.read(FINALISTS, problem), choice=command.read(CHOICE, problem), module="")
        for problem in command.option("problems").split(",")
    ]
    tables = losses.run(command.read_all(LONG_STEPS), command.read_all(LONG_STAMPS), problems)
    command.write({LOSSES: tables["losses"], CURVES: tables["curves"]})
    for row in tables["curves"]:
        last = (
            "no losses" if row["last_loss"] is None else f"{row['first_loss']:.3f} -> {row['last_loss']:.3f}"
        )
        arm = f"{row['model']} m{row['microbatches']}, {row['arm']}"
        command.say(f"{arm}: {last}; {row['outcome']}: {row['message']}")


if __name__ == "__main__":
    run("losses", main, "problems")
