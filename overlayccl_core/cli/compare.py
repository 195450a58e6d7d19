"""`overlayccl compare`: several runs beside each other: how right the model was, what was chosen, what it is worth.

What several runs found of the same Cases: the least and the largest of each figure, and each run's gains. Of two
runs also their coefficients and choices. An archive is read as it is: `overlayccl verify` says whether to believe
it.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from overlayccl_core.cli.render import NOTHING, at_joints, console, percent, plain_table, programs_of, times
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.ranges import Fidelities, Range, RunGain, fidelities, gains, range_of, state
from overlayccl_core.report.sentences import KNOWN
from overlayccl_core.report.tree import Tree, trees_of
from overlayccl_core.tables.remake import RESULTS
from overlayccl_core.tables.theta import THETA

LEGEND = (
    "error, repeat, order, regret: as in `overlayccl summary`, the least and the largest over the runs. beyond "
    "noise: in how many runs the model's first choice was slower than the fastest measured beyond noise. "
    "x developer: where the developer's calls are fastest; x best other: the best that needs no search at the same "
    "or less memory; x fastest: at any memory. How many times as fast, over all runs and then in each with its 95% "
    "interval. no search needed: what was chosen is a known way, too, and measured no slower."
)
OF_TWO = (
    "Coefficients: with their 95% bootstrap intervals; *: the two do not overlap. Chosen: =: one Program."
)
CASE_WIDTH, FEATURE_WIDTH = 34, 40


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="archives, or folders of runs")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables. ValueError for a path without a run, a run given twice, and a damaged table."""
    with tempfile.TemporaryDirectory() as place:
        trees = trees_of([_folder(path, Path(place, str(n))) for n, path in enumerate(arguments.runs)])
        names = {tree.path: str(path) for tree, path in zip(trees, arguments.runs, strict=True)}
        for part in _parts(trees, names):
            console().print(part, highlight=False)
    return 0


def _parts(trees: Sequence[Tree], names: dict[Path, str]) -> Iterator[Table | str]:
    yield _runs(trees, names)
    if len(trees) == 2:
        yield from (_thetas(*trees), _choices(*trees), OF_TWO)
    yield from (_fidelities(fidelities(trees)), _gains(gains(trees), names), LEGEND)


def _folder(path: Path, place: Path) -> Path:
    """Return the folder of a run, after unpacking an archive."""
    from overlayccl_core.archiving import packing

    if path.is_dir():
        return path
    if not path.is_file():
        raise ValueError(f"{path}: there is no such archive or folder")
    trees = [one for one in (packing.unpack(path, place) / RESULTS).glob("*") if one.is_dir()]
    if len(trees) != 1:
        raise ValueError(f"{path}: holds {len(trees)} runs where one is due")
    return trees[0]


def _runs(trees: Sequence[Tree], names: dict[Path, str]) -> Table:
    headers = ("run", "disturbed", "CPU of others, at most", "measured on")
    table = plain_table("The runs", *headers, fold=headers)
    for tree in trees:
        here = state(tree)
        table.add_row(
            names[tree.path],
            ", ".join(here.disturbed) or "no",
            percent(here.foreign_cpu_share),
            "\n".join(here.fingerprints),
        )
    return table


def _fidelities(rows: Iterable[Fidelities]) -> Table:
    headers = ("Programs of", ">runs", ">error", ">repeat", ">order", ">regret", ">beyond noise")
    table = plain_table("How right the model was", *headers, fold=headers[:1])
    for row in rows:
        table.add_row(
            programs_of(row.problem, row.case, row.direction),
            str(row.runs),
            _range(row.error, percent),
            _range(row.repeat, percent),
            _range(row.order, lambda value: f"{value:.3f}"),
            _range(row.regret, percent),
            f"{row.beyond_noise} of {row.runs}" if row.regret else NOTHING,
        )
    return table


def _gains(gained: dict[str, list[RunGain]], names: dict[Path, str]) -> Table:
    headers = ("step of, or pass of", "run", ">x developer", ">x best other", ">x fastest", "use")
    table = plain_table("What is deployed", *headers, fold=headers)  # 80 columns: intervals fold
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
            table.add_row("", names[one.run.path], times(one.over_developer), best + beside, fastest, one.use)
    return table


def _range(span: Range | None, text: Callable[[float], str]) -> str:
    """Return `4.6%..7.1%`; `4.6%` if both are written alike."""
    if span is None:
        return NOTHING
    return "..".join(dict.fromkeys((text(span.low), text(span.high))))


def _two_digits(value: float) -> str:
    return f"{value:.2f}"


def _thetas(a: Tree, b: Tree) -> Table:
    headers = ("feature", ">A", ">B", ">B / A")
    table = plain_table("Coefficients", *headers, fold=headers)
    both = [tree.table(THETA, "theta") for tree in (a, b)]
    rows: list[dict[str, dict[str, Any]]] = [
        {} if frame is None else {str(row["feature"]): row for row in frame.iter_rows(named=True)}
        for frame in both
    ]
    for feature in dict.fromkeys((*rows[0], *rows[1])):
        mine, theirs = (side.get(feature) for side in rows)
        table.add_row(at_joints(feature, FEATURE_WIDTH), _value(mine), _value(theirs), _ratio(mine, theirs))
    return table


def _value(row: dict[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return NOTHING if row is None else row["status"]
    return f"{figures(row['value'])} ({figures(row['low'])}..{figures(row['high'])}) {row['unit']}"


def _ratio(a: dict[str, Any] | None, b: dict[str, Any] | None) -> str:
    if a is None or b is None or a["value"] is None or b["value"] is None:
        return NOTHING
    apart = a["high"] < b["low"] or b["high"] < a["low"]
    ratio = figures(b["value"] / a["value"]) if a["value"] else NOTHING
    return f"{ratio}{' *' if apart else ''}"


def _choices(a: Tree, b: Tree) -> Table:
    headers = ("Case", ">A", ">B", ">the same")
    table = plain_table("Chosen", *headers, fold=headers)
    chosen = [dict(_chosen(tree)) for tree in (a, b)]
    for case in dict.fromkeys((*chosen[0], *chosen[1])):
        mine, theirs = (side.get(case) for side in chosen)
        same = "=" if mine and theirs and mine[1] == theirs[1] else ""
        names = (NOTHING if one is None else one[0] for one in (mine, theirs))
        table.add_row(at_joints(case, CASE_WIDTH), *names, same)
    return table


def _chosen(tree: Tree) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield `Case direction` -> (candidate, digest of its Program)."""
    rows = tree.choice if tree.choice is not None else pl.DataFrame()
    for row in rows.iter_rows(named=True):
        yield f"{row['case']} {row['direction']}", (row["candidate"], row["program"])
