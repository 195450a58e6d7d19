"""`overlayccl explain`: why the chosen candidates are the cheaper ones, by term of the cost model.

Price by term of what was chosen, of the runner-up and of the developer's strategy, with what the others cost more.
Reads the tables of a finished run.
"""

import argparse

import polars as pl

from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import console, print_text
from overlayccl_core.cli.terms_table import terms_table
from overlayccl_core.configuration.fields import hint
from overlayccl_core.program.problem import Direction
from overlayccl_core.report.terms import Explanation, explanations
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.table import Table

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
    problems = _problems(where)
    if arguments.problem is not None:
        if arguments.problem not in problems:
            raise ValueError(
                f"{where.results} has no Problem {arguments.problem!r}: {hint(arguments.problem, problems)}"
            )
        problems = [arguments.problem]
    explained = [one for problem in problems for one in _explanations(where, problem)]
    if not explained:
        raise ValueError(f"{where.results}: nothing is chosen yet: run {where.command()}")
    wanted = [one for one in explained if _is_wanted(one, arguments.case, arguments.direction)]
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


def _problems(where: Context) -> list[str]:
    """Return the Problems of the configuration, then others of the tree: it may be of another configuration."""
    folders = sorted(path.parent.name for path in (where.results / "problems").glob("*/choice.parquet"))
    return list(dict.fromkeys((*where.settings.problems, *folders)))


def _is_wanted(one: Explanation, case: str | None, direction: str | None) -> bool:
    named = case is None or case in (one.case, one.case.partition("/")[2])
    return named and direction in (None, one.direction)


def _explanations(where: Context, problem: str) -> list[Explanation]:
    """Return the explanations of a Problem; none before a choice. ValueError if a table of the run is missing."""
    folder = f"problems/{problem}"
    choice = where.table(CHOICE, f"{folder}/choice")
    if choice is None:
        return []

    def needed(table: Table, name: str) -> pl.DataFrame:
        frame = where.table(table, f"{folder}/{name}")
        if frame is None:
            path = where.results / folder / f"{name}.parquet"
            raise ValueError(f"{path}: is missing beside the choice: run {where.command()}")
        return frame

    return explanations(
        choice,
        needed(VERDICTS, "verdicts"),
        needed(KNOWN_WAYS, "known_ways"),
        needed(PRICES, "prices"),
        where.candidates(problem),
        needed(BENCH, "bench"),
    )
