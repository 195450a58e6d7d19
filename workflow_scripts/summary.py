"""Put proof, price and measurement side by side."""

from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import summary
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.summary import SUMMARY
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Table summary."""
    problems = {
        problem: summary.ProblemTables(
            seeds=command.read(SEEDS, problem),
            prices=command.read(PRICES, problem),
            candidates=command.read_all(CANDIDATES, problem),
            shortlist=command.read(SHORTLIST, problem),
            bench=command.read(BENCH, problem),
            choice=command.read(CHOICE, problem),
        )
        for problem in command.option("problems").split(",")
    }
    tables = summary.run(
        load(command.option("deployment")),
        problems,
        command.read(PROBES),
        command.read(FIDELITY),
        progress=command.say,
    )
    command.write({SUMMARY: tables["summary"]})


if __name__ == "__main__":
    run("summary", main, "deployment", "problems")
