"""`overlayccl score`: is a strategy right, and what should it cost here, by term, beside the known ones?"""

import argparse
from collections.abc import Sequence
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.cli import one_strategy, strategy_file
from overlayccl_core.cli.context import context
from overlayccl_core.cli.one_strategy import Contender
from overlayccl_core.cli.prove import proof_text
from overlayccl_core.cli.render import console, print_line, print_text
from overlayccl_core.cli.terms_table import terms_table
from overlayccl_core.cli.try_strategy import unpriced_text
from overlayccl_core.evidence.prices import price_columns, theta_of
from overlayccl_core.report.terms import Priced, priced_of
from overlayccl_core.stages import seed


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "score",
        help="prove and price a strategy beside the developer's and the best known one",
        description="Prove a strategy at a Case and print its price by term of the cost model beside the "
        "developer's and the cheapest proven seed. Needs a fitted deployment, starts no ranks.",
    )
    strategy_file.add_program_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 if the strategy is proven, 1 if not."""
    where = context(arguments)
    case = strategy_file.chosen_case(where, arguments)
    problem = catalog.build(case)
    name, program = strategy_file.traced(arguments.strategy, problem)
    can, budget = where.capabilities(), where.deployment.memory_budget_bytes
    proof = one_strategy.judge(program, can, budget)
    print_line(f"{name} at {case.id}: {proof_text(proof)}")
    if not proof.passed:
        return 1
    theta = theta_of(*where.fitted())
    listed = one_strategy.contenders(name, proof, list(seed.seed_rows(problem, can, budget)), theta)
    mine, *seeds = listed
    console().print(terms_table(None, _compared(mine, seeds)))
    print_text("Predicted by the cost model fitted here. more: than the first. Measure: overlayccl try.")
    if unpriced := unpriced_text(listed):
        print_text(unpriced)
    return 0


def _compared(mine: Contender, seeds: Sequence[Contender]) -> list[tuple[str, Priced]]:
    """The strategy, the developer's, and the cheapest seed that is neither."""
    parts = [("yours", mine)]
    parts += [("developer", one) for one in seeds if one.role == "developer"]
    known = {one.program.digest for _, one in parts}
    rest = [
        one for one in seeds if one.program.digest not in known and one.price and one.price.us is not None
    ]
    parts += [("best seed", one) for one in sorted(rest, key=_us)[:1]]
    return [(label, _priced(one)) for label, one in parts]


def _us(one: Contender) -> float:
    return one.price.us if one.price and one.price.us is not None else float("inf")


def _priced(one: Contender) -> Priced:
    return priced_of(one.strategy, {"program": one.program.digest, **price_columns(one.price)})
