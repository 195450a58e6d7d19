"""`overlayccl score`: prove and price a strategy beside the developer's and the cheapest known one.

Prove a strategy at a Case and print its price by term of the cost model beside the developer's and the cheapest
proven known way. Needs a fitted deployment, starts no ranks.
"""

import argparse
from collections.abc import Sequence
from math import inf

from overlayccl_core.cli import strategy
from overlayccl_core.cli.context import context
from overlayccl_core.cli.one_strategy import YOURS, StrategyLine, beside_known_ways
from overlayccl_core.cli.prove import proven
from overlayccl_core.cli.render import console, print_text
from overlayccl_core.cli.terms_table import terms_table
from overlayccl_core.cli.try_strategy import unpriced_text
from overlayccl_core.evidence.prices import price_columns, theta_of
from overlayccl_core.program.library import Role
from overlayccl_core.report.terms import Priced, priced_of


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    strategy.add_arguments(parser, "the first")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if the strategy is proven, 1 if not."""
    where = context(arguments)
    mine, (problem, *_) = strategy.asked(where, arguments)
    proof = proven(where, mine, problem, f"{mine.name} at ")
    if proof is None or not proof.passed:
        return 1
    listed = beside_known_ways(where, mine.name, proof, theta_of(*where.fitted()))
    console().print(terms_table(None, compared(listed)))
    print_text(
        f"Predicted by the cost model fitted on {where.asked_for}. more: than yours. The cheapest known way: by "
        "this price. Measure: overlayccl try."
    )
    if unpriced := unpriced_text(listed):
        print_text(unpriced)
    return 0


def compared(listed: Sequence[StrategyLine]) -> list[tuple[str, Priced]]:
    """Return the strategy, the developer's and the cheapest known way; each Program once, with all its labels."""
    ways = [one for one in listed if one.roles != {YOURS}]
    cheapest = min((one for one in ways if _us(one) < inf), key=_us, default=None)
    parts = [
        ("yours", next(one for one in listed if YOURS in one.roles)),
        *(("developer", one) for one in listed if Role.DEVELOPER in one.roles),
        *([("cheapest known way", cheapest)] if cheapest else []),
    ]
    labels: dict[str, list[str]] = {}
    for label, one in parts:
        labels.setdefault(one.program.digest, []).append(label)
    columns = {one.program.digest: one for _, one in parts}
    return [(" = ".join(labels[digest]), _priced(one)) for digest, one in columns.items()]


def _us(one: StrategyLine) -> float:
    return one.price.us if one.price and one.price.us is not None else inf


def _priced(one: StrategyLine) -> Priced:
    return priced_of(one.name, {"program": one.program.digest, **price_columns(one.price)})
