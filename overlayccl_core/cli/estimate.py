"""`overlayccl estimate`: what a run will ask for; of a finished one, what it took.

Before anything is started: jobs, nodes x minutes, minutes of compiling by published figures, money by
config/prices.yaml, and what the models hold on a rank. Of a finished run (TREE): what its jobs took beside what was
expected.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.estimate_tables import (
    COMPARED_LINE,
    SIZES_LINE,
    compared_table,
    memory_lines,
    price_lines,
    run_lines,
    run_table,
    sizes_table,
)
from overlayccl_core.cli.render import NARROW, console, print_line, print_text
from overlayccl_core.configuration import models, topology
from overlayccl_core.configuration.models import Model, problems_of, why_not_trained
from overlayccl_core.configuration.prices import price_of
from overlayccl_core.configuration.searches import FOLDER as SEARCHES
from overlayccl_core.estimates import actual
from overlayccl_core.estimates.plan import Run
from overlayccl_core.estimates.sizes import peak_of, sizes_of
from overlayccl_core.report.tree import Tree
from overlayccl_core.search.proposer import rounds


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("tree", nargs="?", type=Path, metavar="TREE", help="the folder of a finished run")
    parser.add_argument(
        "--models", metavar="NAME,...", help="files in config/models, as with --config models="
    )
    parser.add_argument("--problems", metavar="NAME,...", help="as with --config problems=")


def run(arguments: argparse.Namespace) -> int:
    """Return 0. ValueError: file, field and mend."""
    if arguments.tree is not None:
        if any(getattr(arguments, key) for key in ("profile", "deployment", "preset", "models", "problems")):
            raise ValueError("TREE is a run that has its own configuration: give it alone")
        return _finished(Tree(path=arguments.tree), arguments.root)
    asked = {key: getattr(arguments, key) for key in ("models", "problems")}
    return _ahead(context(arguments, **asked), date.today())


def _ahead(asked: Context, today: date) -> int:
    """Print the demands of a run of this configuration."""
    root, settings, deployment = asked.root, asked.settings, asked.deployment
    of_run = [models.load(name, root / models.FOLDER) for name in settings.models]
    trained, left_out = _trained(of_run, settings.problems, deployment.ranks)
    where = replace(asked, settings=settings.changed(models=trained))
    cases = {problem: found for problem in settings.problems if (found := where.cases(problem))}
    without = [
        f"Not counted, as a run stops there: {p} has no Case." for p in settings.problems if p not in cases
    ]
    published = topology.of_node(deployment.node, root / topology.FOLDER)
    figures = published.calibration if published else None
    planned = Run(
        deployment=deployment,
        settings=where.settings.changed(problems=tuple(cases)) if cases else where.settings,
        cases=cases,
        figures=figures,
        limits=published.limits if published else (),
        rounds=tuple(rounds(settings.searches, root / SEARCHES)),
    )
    price = price_of(deployment.node, root)
    known = _known(where.results)
    jobs = [*planned.on_ranks(), planned.without_ranks(known)]
    print_line(f"{where.asked_for}: {_nodes(deployment.nodes, deployment.node)}, {deployment.ranks} ranks")
    narrow = console().width < NARROW
    peaks = {case.id: peak_of(case) for one in cases.values() for case in one}
    console().print(run_table(jobs, price, narrow=narrow))
    for line in (
        *run_lines(deployment.node, figures, bool(known)),
        *price_lines(deployment.node, price, today),
        *(*left_out, *without),
        *memory_lines(peaks, deployment.memory_budget_bytes),
    ):
        print_text(line)
    sized = [row for model in of_run for row in sizes_of(model, deployment)]
    if sized:
        console().print(sizes_table(sized, deployment.memory_budget_bytes, narrow=narrow))
        print_text(SIZES_LINE)
    return 0


def _finished(tree: Tree, root: Path) -> int:
    """Print the times of a finished run."""
    cost = actual.cost_of_tree(tree)
    node = actual.node_of(tree, root)
    price = price_of(node, root)
    console().print(compared_table(tree.name, list(actual.compared(tree, cost)), cost, price))
    print_text(COMPARED_LINE)
    for line in price_lines(node, price, date.today()):
        print_text(line)
    return 0


def _trained(
    found: Iterable[Model], problems: Sequence[str], ranks: int
) -> tuple[tuple[str, ...], list[str]]:
    """Return (models to train, a line for each other), as the pipeline sorts them."""
    trained, left_out = [], []
    for model in found:
        missing = [problem for problem in problems_of(model, ranks) if problem not in problems]
        if why := why_not_trained(model):
            left_out.append(f"{model.name} is sized, not trained: {why}.")
        elif missing:
            left_out.append(f"{model.name} is sized, not trained: `problems` lacks {', '.join(missing)}.")
        else:
            trained.append(model.name)
    return tuple(trained), left_out


def _known(results: Path) -> dict[str, float]:
    """Return the seconds of jobs in the last run of a tree; empty without a run."""
    made = results.is_dir() and any(results.rglob("*.parquet"))
    return {phase.name: phase.last_s for phase in Tree(path=results).phases} if made else {}


def _nodes(count: int, node: str) -> str:
    return f"{count} node{'s' if count > 1 else ''}" + (f" of {node}" if node else "")
