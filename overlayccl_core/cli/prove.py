"""`overlayccl prove`: is a strategy legal and equal to the reference? Exit code 0 or 1."""

import argparse
from typing import Any

from overlayccl_core.cli import strategy_file
from overlayccl_core.cli.context import context
from overlayccl_core.cli.one_strategy import Proof, prove
from overlayccl_core.cli.render import console
from overlayccl_core.program.kinds import NotApplicable


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("prove", help="prove a strategy at one or all configured Cases")
    strategy_file.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 if it is proven at every Case where it has a meaning, and at one at least."""
    where = context(arguments)
    cases = strategy_file.chosen_cases(where, arguments.problem, arguments.case)
    strategy = strategy_file.read_strategy(arguments.strategy)
    can, budget = where.capabilities(), where.deployment.memory_budget_bytes
    passed, failed = 0, 0
    for case in cases:
        try:
            with strategy_file.placed(strategy.name, strategy.source, strategy.function, case.id):
                proof = prove(strategy.source, strategy.function, case, can, budget)
        except NotApplicable as reason:
            console().print(
                f"{case.id}: not applicable: {reason}", highlight=False, soft_wrap=True, markup=False
            )
            continue
        passed, failed = passed + proof.passed, failed + (not proof.passed)
        console().print(f"{case.id}: {proof_text(proof)}", highlight=False, soft_wrap=True, markup=False)
    every = strategy_file.chosen_cases(where, arguments.problem, None)
    if not passed and arguments.case and (others := strategy_file.other_cases_text(every, cases[0])):
        console().print(others, highlight=False, soft_wrap=True, markup=False)
    return 0 if passed and not failed else 1


def proof_text(proof: Proof) -> str:
    """One line: proven and how exact, or the gate that rejects it and its counterexample."""
    verdict = proof.deciding
    if proof.passed:
        components = f"{verdict['components']} component{'' if verdict['components'] == 1 else 's'}"
        return f"proven, {verdict['numerics']} ({components}, {verdict['method']})"
    return f"{verdict.outcome.value} at {verdict.gate.value} ({verdict.reason.value}): {verdict.message}"
