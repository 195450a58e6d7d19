"""`overlayccl prove`: is a strategy legal and equal to the reference? Exit code 0 or 1."""

import argparse
from typing import Any

from overlayccl_core.cli import one_strategy, strategy
from overlayccl_core.cli.context import context
from overlayccl_core.cli.one_strategy import Proof
from overlayccl_core.cli.render import print_line
from overlayccl_core.cli.strategy import other_cases_text, place_text
from overlayccl_core.program.kinds import NotApplicable


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "prove",
        help="prove a strategy at one or all configured Cases",
        description="Prove that a strategy gives what the Problem asks for, on all ranks: for all inputs, or, "
        "where the Problem is not linear, on the data that it is tried on. Starts no ranks.",
    )
    strategy.add_arguments(parser, "all")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if it is proven at every Case it applies to, and at one at least."""
    where = context(arguments)
    mine, problems = strategy.asked(where, arguments)
    can, budget = where.capabilities(), where.deployment.memory_budget_bytes
    passed, failed = 0, 0
    for problem in problems:
        try:
            proof = one_strategy.judge(mine.at(problem), can, budget)
        except NotApplicable as reason:
            print_line(f"{place_text(problem)}: not applicable: {reason}")
            continue
        passed, failed = passed + proof.passed, failed + (not proof.passed)
        print_line(f"{place_text(problem)}: {proof_text(proof)}")
    if not passed and len(problems) == 1 and (others := other_cases_text(where, problems[0])):
        print_line(others)
    return 0 if passed and not failed else 1


def proof_text(proof: Proof) -> str:
    """Return one line: proven and how exact, or the rejecting gate and its counterexample."""
    verdict = proof.deciding
    if proof.passed:
        components = f"{verdict['components']} component{'' if verdict['components'] == 1 else 's'}"
        tried = " on the data tried" if verdict["method"] == "values" else ""
        return f"proven{tried}, {verdict['numerics']} ({components}, {verdict['method']})"
    return f"{verdict.outcome.value} at {verdict.gate.value} ({verdict.reason.value}): {verdict.message}"
