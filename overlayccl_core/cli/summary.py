"""`overlayccl summary`: what a run deploys and what that is worth, and how right the model was."""

import argparse
from collections.abc import Iterator
from typing import Any

import polars as pl
from rich.console import Console

from overlayccl_core.cli.context import context
from overlayccl_core.cli.deployed_table import deployed_parts
from overlayccl_core.cli.render import NOTHING, case_parts, console, machine_parts
from overlayccl_core.configuration.models import label
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.arms import Arm, Run
from overlayccl_core.report.asked import shortfalls
from overlayccl_core.report.disturbed import disturbed, on_disturbed
from overlayccl_core.report.payback import Cost, cost_of, deployed_and_developer, payback
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.summary import SUMMARY

WIDEST = 100  # columns: a run ends with these tables, wherever it is watched


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("summary", help="the results of the last run")
    parser.add_argument("--all", action="store_true", help="every candidate of every Case, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables. ValueError where no run has been finished."""
    where = context(arguments)
    summary = where.table(SUMMARY, "summary")
    if summary is None:
        raise ValueError(f"{where.results}: no summary yet: run snakemake --profile local all")
    problems = list(summary["problem"].unique(maintain_order=True))
    choices = {
        p: table for p in problems if (table := where.table(CHOICE, f"problems/{p}/choice")) is not None
    }
    names = ("fidelity", *(f"problems/{p}/fidelity" for p in problems))
    fidelity = pl.concat([table for name in names if (table := where.table(FIDELITY, name)) is not None])
    if arguments.all:
        for part in case_parts(summary):
            console().print(part, highlight=False, soft_wrap=isinstance(part, str))
    tree = Tree(path=where.results)
    screen = Console(width=min(console().width, WIDEST))
    for part in (
        *machine_parts(fidelity, where.table(PROBES, "probes")),
        *disturbed(tree),
        *shortfalls(tree),
        *deployed_parts(choices, summary, tree.runs, on_disturbed(tree)),
        *spent_text(tree),
    ):
        screen.print(part, highlight=False)
    return 0


def spent_text(tree: Tree) -> Iterator[str]:
    """Nothing where a job of the run left no duration."""
    cost = cost_of(tree)
    if cost is None or cost.unknown:
        return
    said = f"Measuring, proving and searching took {cost.seconds / 60:.1f} minutes in all"
    paid = [
        f"{label(run.model, run.microbatches)} {figures(steps)}{_beside(run, chosen, cost)}"
        for run, chosen, developer in deployed_and_developer(tree)
        if (steps := payback(chosen, developer, cost).steps)
    ]
    if paid:
        said += (
            ". Over developer's calls that is saved again, by each model alone, after so many training steps "
            f"(in brackets: over the best other arm; -: not faster beyond noise): {', '.join(paid)}"
        )
    yield said + "."


def _beside(run: Run, chosen: Arm, cost: Cost) -> str:
    """` (13,300 hand_bundled)`."""
    other = run.best_other
    if other is None:
        return ""
    steps = payback(chosen, other, cost).steps
    return f" ({NOTHING if steps is None else figures(steps)} {other.name})"
