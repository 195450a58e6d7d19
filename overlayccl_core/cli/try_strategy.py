"""`overlayccl try`: proof, price by term and measured time of one strategy beside the seeds, in one table."""

import argparse
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.cli import strategy_file
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.prove import proof_text
from overlayccl_core.cli.render import LEGEND, console, disturbed_text, say, trial_table
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.stages import seed, try_strategy
from overlayccl_core.stages.price import theta_of
from overlayccl_core.stages.summary import floor_of
from overlayccl_core.tables.probes import PROBES

DEFAULT_SECONDS = 30.0


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("try", help="prove, price and time a strategy beside the seeds")
    strategy_file.add_arguments(parser)
    parser.add_argument("--no-measure", action="store_true", help="prove and price only: start no ranks")
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="time for measuring (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 if the strategy is proven, 1 if not."""
    where = context(arguments.root, arguments.deployment)
    strategy = strategy_file.read_strategy(arguments.strategy)
    case = strategy_file.chosen_cases(where, arguments.problem, arguments.case)[0]
    can, budget = where.capabilities(), where.deployment.memory_budget_bytes
    proof = try_strategy.prove(strategy.source, strategy.function, case, can, budget)
    console().print(f"{strategy.function} at {case.id}: {proof_text(proof)}", highlight=False, soft_wrap=True)
    theta = _theta(where)
    say("proving the seeds of this Case")
    seeds = list(seed.seed_rows(catalog.build(case), can, budget))
    found = try_strategy.contenders(strategy.function, proof, seeds, theta)
    if proof.passed and not arguments.no_measure:
        found = try_strategy.measure(found, where.deployment, arguments.seconds, say)
    console().print(trial_table(found, _floor(where)))
    console().print(LEGEND, highlight=False, soft_wrap=True)
    if any(one.timed and one.timed.disturbed for one in found):
        console().print(disturbed_text("strategies"), highlight=False, soft_wrap=True)
    if theta is None:
        command = f"snakemake --profile local results/{where.deployment.name}/theta.parquet"
        console().print(
            f"No prices: nothing was fitted here yet. Run: {command}", highlight=False, soft_wrap=True
        )
    return 0 if proof.passed else 1


def _theta(where: Context) -> Theta | None:
    tables = where.theta_tables()
    return None if tables is None else theta_of(*tables)


def _floor(where: Context) -> Floor | None:
    probes = where.table(PROBES, "probes")
    return None if probes is None else floor_of(probes)
