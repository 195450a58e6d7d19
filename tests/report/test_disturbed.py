"""What is said of launches in which others took too much of the CPU."""

import re
import shutil
from pathlib import Path

import polars as pl

from overlayccl_core.report.deployed import notes
from overlayccl_core.report.measured import disturbed
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from overlayccl_core.tables.table import Table, read, write

BENCHED, TRAINED = "problems/tp_mlp/bench", "train/nano/steps"


def tree_with(whole: Path, folder: Path, **launches: tuple[int, ...]) -> Tree:
    """A copy of a run in which these launches of `bench` and `steps` were disturbed, and no others."""
    root = Path(shutil.copytree(whole, folder / "local"))
    _mark(BENCH, root / f"{BENCHED}.parquet", launches.get("bench", ()))
    _mark(STEPS, root / f"{TRAINED}.parquet", launches.get("steps", ()))
    _mark(CONFIRMED_STEPS, root / "confirmed_steps.parquet", launches.get("confirmed", ()))
    return Tree(path=root)


def _mark(table: Table, path: Path, launches: tuple[int, ...]) -> None:
    frame = read(table, path).with_columns(disturbed=pl.col("launch").is_in(launches))
    write(table, frame.to_dicts(), path)
    path.with_suffix(".sidecar.json").unlink(missing_ok=True)  # it is of the table before


def test_nothing_is_said_where_nobody_disturbed_anything(whole: Path, tmp_path: Path) -> None:
    tree = tree_with(whole, tmp_path)
    assert disturbed(tree) == []


def test_launches_are_counted(whole: Path, tmp_path: Path) -> None:
    tree = tree_with(whole, tmp_path, steps=(3,))
    (said,) = disturbed(tree)
    assert all(part in said for part in ("Disturbed: ", "10%", "1 of 4 ", "training of nano"))
    assert said in [text.text for text in notes(tree)]


def test_the_launches_that_confirm_are_counted_too(whole: Path, tmp_path: Path) -> None:
    tree = tree_with(whole, tmp_path, bench=(0,), steps=(0, 1, 2), confirmed=(1,))
    (said,) = disturbed(tree)
    assert re.search("1 of 1 .*tp_mlp, 3 of 4 .*nano.*1 of 4 .*confirm", said)
