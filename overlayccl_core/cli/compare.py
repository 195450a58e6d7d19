"""`overlayccl compare A B`: two runs side by side, of archives or folders."""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from overlayccl_core.cli.render import NOTHING, at_joints, console, plain_table, times
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.ranges import gains, state
from overlayccl_core.report.sentences import KNOWN
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.remake import RESULTS
from overlayccl_core.tables.theta import THETA

LEGEND = (
    "Coefficients: with their 95% bootstrap intervals; *: the two do not overlap. Deployed: =: one Program. "
    "x developer: where the developer's calls are fastest; x best other: the best that needs no search at the "
    "same or less memory; how many times as fast, with its 95% interval, by launches that chose nothing."
)
CASE_WIDTH, FEATURE_WIDTH = 34, 40


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        help="two runs side by side: coefficients, what was chosen, what it is worth",
        description="Lay two runs side by side: the coefficients of the cost model, what was chosen, and how "
        "many times as fast it is. An archive is read as it is: `overlayccl verify` says whether to believe it.",
    )
    for name in ("a", "b"):
        parser.add_argument(name, type=Path, metavar=name.upper(), help="an archive, or a folder of a run")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the four tables. ValueError for a path without a run."""
    with tempfile.TemporaryDirectory() as place:
        a, b = (_opened(path, Path(place, name)) for path, name in ((arguments.a, "a"), (arguments.b, "b")))
        names = (str(arguments.a), str(arguments.b))
        for part in (_runs(a, b, names), _thetas(a, b), _choices(a, b), _gains(a, b), LEGEND):
            console().print(part, highlight=False)
    return 0


def _opened(path: Path, place: Path) -> Tree:
    """Return the run of a folder, or of an archive after unpacking it."""
    from overlayccl_core.archiving import packing

    if path.is_dir():
        return Tree(path=path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such archive or folder")
    trees = [one for one in (packing.unpack(path, place) / RESULTS).glob("*") if one.is_dir()]
    if len(trees) != 1:
        raise ValueError(f"{path}: holds {len(trees)} runs where one is due")
    return Tree(path=trees[0])


def _runs(a: Tree, b: Tree, names: tuple[str, str]) -> Table:
    table = plain_table("The runs")
    for header in ("", "run", "disturbed", "measured on"):
        table.add_column(header, overflow="fold")
    for letter, name, tree in zip("AB", names, (a, b), strict=True):
        here = state(tree)
        table.add_row(letter, name, ", ".join(here.disturbed) or "no", "\n".join(here.fingerprints))
    return table


def _thetas(a: Tree, b: Tree) -> Table:
    table = _sides("Coefficients", "feature", "B / A")
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
    table = _sides("Chosen", "Case", "the same")
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


def _gains(a: Tree, b: Tree) -> Table:
    table = plain_table("Worth")
    table.add_column("model", overflow="fold")
    for header in ("A: x developer", "x best other", "B: x developer", "x best other"):
        table.add_column(header, justify="right")
    found = gains((a, b))
    for model in found:
        sides = {one.run.path: one for one in found[model]}
        both = [sides.get(tree.path) for tree in (a, b)]
        texts = (
            text
            for one in both
            for text in (
                (NOTHING, NOTHING)
                if one is None
                else (times(one.over_developer), KNOWN if one.known else times(one.over_best))
            )
        )
        table.add_row(model, *texts)
    return table


def _sides(title: str, what: str, last: str) -> Table:
    table = plain_table(title)
    table.add_column(what, overflow="fold")
    for header in ("A", "B", last):
        table.add_column(header, justify="right", overflow="fold")
    return table
