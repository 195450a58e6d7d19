"""Put searches side by side, by what they found after how many evaluations."""

import polars as pl

from overlayccl_core.stages import ablation
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATIONS
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.sketches import SKETCHES
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables ablation_curves and ablations."""
    problems = command.option("problems").split(",")
    sketches, candidates, calls = (
        pl.concat([command.read_all(table, problem) for problem in problems])
        for table in (SKETCHES, CANDIDATES, CALLS)
    )
    tables = ablation.run(sketches, candidates, calls)
    command.write({ABLATION_CURVES: tables["ablation_curves"], ABLATIONS: tables["ablations"]})


if __name__ == "__main__":
    run("ablation", main, "problems")
