"""What was chosen in a results tree, to be replayed in another one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.rewrites.recipe import Recipe, source_base
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.redeploy import SOURCE_CHOICES, SOURCE_THETA, TARGET
from overlayccl_core.tables.remake import RESULTS, run_command
from overlayccl_core.tables.sidecar import read_unchanged
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import Table, read, write
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]
KEPT = f"{TARGET}/{SOURCE_CHOICES.name}.parquet"  # below the tree of the run
KEPT_THETA = f"{TARGET}/{SOURCE_THETA.name}.parquet"


def chosen_in(results: Path, tree: str) -> list[Row]:
    """Return the choices of a tree, as rows of `source_choices`; [] without any. results: the folder of trees."""
    return [
        row for folder in sorted((results / tree).glob("problems/*")) for row in _of_problem(folder, tree)
    ]


def kept(path: Path) -> str | None:
    """Return the tree whose choices are kept for this run; None if there is none."""
    if not path.is_file():
        return None
    here = path.parent.parent.name
    trees = read(SOURCE_CHOICES, path)["tree"].unique()
    return next((tree for tree in trees.sort() if tree != here), None)


def choices(results: Path, here: str, source: str) -> pl.DataFrame:
    """Return the choices of the tree `source`, then those of the run's own tree `here`, as `source_choices`."""
    return pl.DataFrame(
        [*chosen_in(results, source), *chosen_in(results, here)], schema=SOURCE_CHOICES.schema
    )


def keep(results: Path, here: str, source: str) -> None:
    """Copy these choices, and the theta of `source`, into the run's own tree, after the checks of `check`.

    A file is left as it is if its content would be the same, or if `source` is gone and its choices are here.
    """
    check(results, here, source)
    rows = choices(results, here, source)
    if source in rows["tree"]:
        _copied(SOURCE_CHOICES, rows, results / here / KEPT)
        theta = read_unchanged(THETA, results / source / f"{THETA.name}.parquet")
        _copied(SOURCE_THETA, theta, results / here / KEPT_THETA)


def _copied(table: Table, rows: pl.DataFrame, path: Path) -> None:
    if not (path.is_file() and read(table, path).equals(rows)):
        write(table, rows, path)


def check(results: Path, here: str, source: str) -> None:
    """Raise ValueError if `source` is this run's own tree, or no tree with a choice; with the command for one."""
    where = f"--config source={source}"
    if source == here:
        raise ValueError(f"{where}: this is the run's own tree: name the tree of another deployment")
    if chosen_in(results, source) or kept(results / here / KEPT) == source:
        return
    there = sorted(folder.parent.parent.parent.name for folder in results.glob("*/problems/*/choice.parquet"))
    others = ", ".join(tree for tree in dict.fromkeys(there) if tree != here) or "none"
    lacks = "has no choice yet" if (results / source).is_dir() else "does not exist"
    raise ValueError(
        f"{where}: {results / source} {lacks} (trees with choices: {others}): name one of those, or run "
        f"`{run_command(Path(RESULTS, source))}`"
    )


def _of_problem(folder: Path, tree: str) -> Iterator[Row]:
    """Yield the choices of one Problem; none before rule choose."""
    choices = folder / f"{CHOICE.name}.parquet"
    if not choices.is_file():
        return
    cases = {
        row["case"]: row for row in read_unchanged(CASES, folder / "cases.parquet").iter_rows(named=True)
    }
    written = _sources(folder)
    for row in read_unchanged(CHOICE, choices).iter_rows(named=True):
        if row["case"] not in cases:  # of a run before this configuration
            continue
        recipe = Recipe.from_json(json.loads(row["recipe"]))
        yield {
            "tree": tree,
            **cases[row["case"]],
            **{name: row[name] for name in ("direction", "candidate", "recipe")},
            "source": written.get(recipe.first) if recipe.of_source else None,
        }


def _sources(folder: Path) -> dict[str, str]:
    """Return the base of a recipe -> the source that it names, from all searches of a Problem."""
    found = {}
    for path in sorted(folder.glob(f"search/*/{SKETCHES.name}.parquet")):
        sketches = read_unchanged(SKETCHES, path).drop_nulls("source")
        for source, function in sketches.select("source", "function").iter_rows():
            found[source_base(source, function)] = source
    return found
