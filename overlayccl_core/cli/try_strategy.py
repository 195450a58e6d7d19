"""`overlayccl try`: prove, price and time a strategy beside the known ways.

Prove and price a strategy at a Case, then time it beside the proven known ways, all on real ranks in one launch.
"""

import argparse
from collections.abc import Sequence
from math import inf

from overlayccl_core.cli import one_strategy, strategy
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.one_strategy import StrategyLine
from overlayccl_core.cli.prove import print_other_cases, proven
from overlayccl_core.cli.render import LEGEND, SAME_LEGEND, console, print_line, print_text, say, trial_tables
from overlayccl_core.cli.schedule_file import check_ranks
from overlayccl_core.cli.strategy import place_text
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.evidence.benched import floor_of
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import remake

DEFAULT_SECONDS = 30.0


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    strategy.add_arguments(parser, "the first")
    parser.add_argument("--no-measure", action="store_true", help="prove and price only: start no ranks")
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="time for measuring (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if the strategy is proven, 1 if not."""
    if not 0 < arguments.seconds < inf:
        raise ValueError(f"--seconds must be a time above 0 (got {arguments.seconds:g})")
    where = context(arguments)
    mine, (problem, *_) = strategy.asked(where, arguments)
    check_ranks(where, problem)
    proofs = [proven(where, use, problem, f"{use.name} at ") for use in (mine, *mine.also)]
    proof = proofs[0]
    if proof is None or not all(one is not None and one.passed for one in proofs):
        print_other_cases(where, problem)
        return 1
    theta = None if (tables := where.theta_tables()) is None else theta_of(*tables)
    say(f"proving the known ways of {place_text(problem)}")
    listed = one_strategy.beside_known_ways(where, mine.name, proof, theta)
    if not arguments.no_measure:
        listed = one_strategy.measure(listed, where.deployment, arguments.seconds, where.results, say)
    for part in trial_tables(listed, _floor(where)):
        console().print(part, highlight=False)
    print_text(SAME_LEGEND if arguments.no_measure else LEGEND)
    if any(one.timed and one.timed.disturbed for one in listed):
        print_line("Disturbed: others took CPU time while strategies ran; measure again on a quiet machine.")
    if theta is None:
        print_line(where.unfitted)
    elif unpriced := unpriced_text(listed):
        print_line(unpriced)
    return 0


def unpriced_text(listed: Sequence[StrategyLine]) -> str | None:
    """Explain in one line why some strategies have no price; None if all have one."""
    unpriced = [one for one in listed if one.price and one.price.us is None]
    if not unpriced:
        return None
    names = ", ".join(one.name for one in unpriced)
    missing = ", ".join(sorted({name for one in unpriced if one.price for name in one.price.missing}))
    return f"No price for {names}: the probes of this deployment gave no theta for {missing}."


def _floor(where: Context) -> Floor | None:
    probes = where.table(PROBES, "probes")
    try:
        return None if probes is None else floor_of(probes)
    except ValueError as error:  # Programs of another release
        path = where.results / "probes.parquet"
        raise ValueError(f"{path}: {error}. Make it again: {remake(path)}") from None
