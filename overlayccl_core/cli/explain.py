"""`overlayccl explain`: why the chosen candidates are the cheaper ones, by term of the cost model.

Price by term of what was chosen, of the runner-up and of the developer's strategy, with what the others cost more.
Reads the tables of a finished run.
"""

import argparse

from overlayccl_core.cli.context import context
from overlayccl_core.cli.render import console, print_text
from overlayccl_core.cli.terms_table import terms_table
from overlayccl_core.configuration.fields import hint
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Direction
from overlayccl_core.report.terms import Explanation, explained_choices

LEGEND = (
    "Predicted: by term of the cost model fitted here. Measured: in the bench, by which was chosen; "
    "`summary` tells what it is worth since. more: than the chosen one. The runner-up is the quickest other "
    "one that was measured."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--problem", metavar="NAME", help="only this Problem (default: all)")
    parser.add_argument("--case", metavar="ID", help="only this Case (default: all)")
    parser.add_argument(
        "--direction", choices=[d.value for d in Direction], help="only this direction (default: both)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0. ValueError before a choice, and for a Case without one."""
    where = context(arguments)
    explained = where.tree and explained_choices(where.tree)
    if not explained:
        raise ValueError(f"{where.results}: nothing is chosen yet: run {where.command()}")
    problems = list(dict.fromkeys(problem_of(one.case) for one in explained))
    if arguments.problem not in (None, *problems):
        raise ValueError(
            f"{where.results} has no Problem {arguments.problem!r}: {hint(arguments.problem, problems)}"
        )
    wanted = [one for one in explained if _is_wanted(one, arguments)]
    if not wanted:
        known = dict.fromkeys(f"{one.case} {one.direction}" for one in explained)
        asked = " ".join(word for word in (arguments.case, arguments.direction) if word)
        raise ValueError(f"{where.results}: there is no choice for {asked}: {hint(asked, known)}")
    for one in wanted:
        title = f"{one.case} {one.direction}"
        console().print(terms_table(title, [(part.value, priced) for part, priced in one.parts]))
        print_text(f"{one.chosen.name}: {one.reason}\n")
    print_text(LEGEND)
    return 0


def _is_wanted(one: Explanation, asked: argparse.Namespace) -> bool:
    problem, _, short = one.case.partition("/")
    named = asked.problem in (None, problem) and asked.case in (None, one.case, short)
    return named and asked.direction in (None, one.direction)
