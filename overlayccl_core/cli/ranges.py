"""`overlayccl ranges TREE ...`: the figures of several runs as ranges, and the state of the machine in each."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from overlayccl_core.cli.render import NOTHING, console, percent, plain_table, programs_of, times
from overlayccl_core.report.ranges import Fidelities, Gain, Range, fidelities, gains, range_of, state
from overlayccl_core.report.sentences import KNOWN
from overlayccl_core.report.tree import Tree, trees_of

LEGEND = (
    "error, repeat, order, regret: as in `overlayccl summary`, the least and the largest over the runs. beyond "
    "noise: in how many of them the model's first choice was slower than the fastest measured beyond noise. "
    "x developer: where the developer's calls are fastest; x best other: the best that needs no search at the same "
    "or less memory; x fastest: at any memory. How many times as fast, over all runs and then in each with its 95% "
    "interval. no search needed: what was chosen is a known way, too."
)


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "ranges",
        help="how far several runs agree: figures of the model and of what is deployed, as ranges",
        description="What several runs found of the same Cases: the least and the largest of each figure. Runs on "
        "different days, or on quiet and busy machines, say how far one run's figures can be trusted.",
    )
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE", help="folders of finished runs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables. ValueError for a folder without a run, or a damaged table."""
    trees = trees_of(arguments.trees)
    for part in (_runs(trees), _fidelities(fidelities(trees)), _gains(gains(trees)), LEGEND):
        console().print(part, highlight=False)
    return 0


def _runs(trees: Sequence[Tree]) -> Table:
    table = plain_table("The runs")
    for header in ("run", "disturbed", "CPU of others, at most", "measured on"):
        table.add_column(header, overflow="fold")
    for tree in trees:
        here = state(tree)
        table.add_row(
            str(tree.path),
            ", ".join(here.disturbed) or "no",
            percent(here.foreign_cpu_share),
            "\n".join(here.fingerprints),
        )
    return table


def _fidelities(rows: Iterable[Fidelities]) -> Table:
    table = plain_table("How right the model was")
    table.add_column("Programs of", overflow="fold")
    for header in ("runs", "error", "repeat", "order", "regret", "beyond noise"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            programs_of(row.case, row.direction),
            str(row.runs),
            _range(row.error, percent),
            _range(row.repeat, percent),
            _range(row.order, lambda value: f"{value:.3f}"),
            _range(row.regret, percent),
            f"{row.beyond_noise} of {row.runs}" if row.regret else NOTHING,
        )
    return table


def _gains(gained: dict[str, list[Gain]]) -> Table:
    table = plain_table("What is deployed")
    table.add_column("step of, or pass of", overflow="fold")
    table.add_column("run", overflow="fold")
    for header in ("x developer", "x best other", "x fastest"):  # 80 columns: intervals fold
        table.add_column(header, justify="right", overflow="fold")
    table.add_column("use", overflow="fold")
    for place, here in gained.items():
        found = [one for one in here if not one.known]
        ratios = (
            [one.over_developer for one in here],
            *([getattr(one, name) for one in found] for name in ("over_best", "over_fastest")),
        )
        spans = (_range(range_of(r.value for r in each if r), _two_digits) for each in ratios)
        table.add_row(place, f"all {len(here)}", *spans, "", style="bold")
        for one in here:
            beside = "" if one.best_other is None else f" {one.best_other}"
            gains = (KNOWN if one.known else times(of) for of in (one.over_best, one.over_fastest))
            best, fastest = gains
            table.add_row("", str(one.run.path), times(one.over_developer), best + beside, fastest, one.use)
    return table


def _range(span: Range | None, text: Callable[[float], str]) -> str:
    """Return `4.6%..7.1%`; `4.6%` if both are written alike."""
    if span is None:
        return NOTHING
    return "..".join(dict.fromkeys((text(span.low), text(span.high))))


def _two_digits(value: float) -> str:
    return f"{value:.2f}"
