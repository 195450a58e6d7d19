"""`overlayccl prove`: prove a strategy at one or all configured Cases.

Prove that a strategy gives what the Problem asks for, on all ranks: for all inputs, or, where the Problem is not
linear, on the data that it is tried on. Starts no ranks.
"""

import argparse

from overlayccl_core.cli import strategy
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.one_strategy import Proof, judge
from overlayccl_core.cli.render import print_line
from overlayccl_core.cli.strategy import Strategy, other_cases_text, place_text
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.problem import Problem


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    strategy.add_arguments(parser, "all")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if it is proven at every Case it applies to, and at one at least."""
    where = context(arguments)
    mine, problems = strategy.asked(where, arguments)
    for line in mine.about:
        print_line(line)
    passed = [
        proof.passed
        for problem in problems
        for use in (mine, *mine.also)
        if (proof := proven(where, use, problem, f"{use.name} at " if mine.also else "")) is not None
    ]
    if not any(passed) and len(problems) == 1:
        print_other_cases(where, problems[0])
    return 0 if passed and all(passed) else 1


def proven(where: Context, mine: Strategy, problem: Problem, before: str = "") -> Proof | None:
    """Print a line about a strategy at a Case, and return its proof; None where it does not apply."""
    place = f"{before}{place_text(problem)}"
    try:
        here = problem.case.ranks * problem.case.groups == where.deployment.ranks
        can = where.capabilities() if here else None
        proof = judge(mine.at(problem), can, where.deployment.memory_budget_bytes)
    except NotApplicable as reason:
        print_line(f"{place}: not applicable: {reason}")
        return None
    print_line(f"{place}: {proof_text(proof)}")
    return proof


def print_other_cases(where: Context, tried: Problem) -> None:
    """Name other Cases to try it at, if any."""
    if others := other_cases_text(where, tried):
        print_line(others)


def proof_text(proof: Proof) -> str:
    """Return one line: proven and how exact, or the rejecting gate and its counterexample."""
    verdict = proof.deciding
    if proof.passed:
        components = f"{verdict['components']} component{'' if verdict['components'] == 1 else 's'}"
        tried = " on the data tried" if verdict["method"] == "values" else ""
        return f"proven{tried}, {verdict['numerics']} ({components}, {verdict['method']})"
    return f"{verdict.outcome.value} at {verdict.gate.value} ({verdict.reason.value}): {verdict.message}"
