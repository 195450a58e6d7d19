"""What is said of launches in which others took too much of the CPU."""

import shutil
from pathlib import Path

import polars as pl

from overlayccl_core.report.deployed import blocks, notes
from overlayccl_core.report.disturbed import disturbed, on_disturbed
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.steps import STEPS
from overlayccl_core.tables.table import Table, read, write

BENCHED, TRAINED = "problems/tp_mlp/bench", "train/nano/steps"


def tree_with(whole: Path, folder: Path, **launches: tuple[int, ...]) -> Tree:
    """A copy of a run in which these launches of `bench` and `steps` were disturbed, and no others."""
    root = Path(shutil.copytree(whole, folder / "local"))
    _mark(BENCH, root / f"{BENCHED}.parquet", launches.get("bench", ()))
    _mark(STEPS, root / f"{TRAINED}.parquet", launches.get("steps", ()))
    return Tree(path=root)


def _mark(table: Table, path: Path, launches: tuple[int, ...]) -> None:
    frame = read(table, path).with_columns(disturbed=pl.col("launch").is_in(launches))
    write(table, frame.to_dicts(), path)
    path.with_suffix(".sidecar.json").unlink(missing_ok=True)  # it is of the table before


def test_nothing_is_said_where_nobody_disturbed_anything(whole: Path, tmp_path: Path) -> None:
    tree = tree_with(whole, tmp_path)
    assert disturbed(tree) == [] and on_disturbed(tree) == frozenset()


def test_launches_are_counted_and_nothing_is_marked_where_most_were_quiet(
    whole: Path, tmp_path: Path
) -> None:
    tree = tree_with(whole, tmp_path, steps=(3,))
    (said,) = disturbed(tree)
    assert said.startswith(
        "Disturbed: others took over 10% of the CPU in 1 of 5 launches of the training of nano."
    )
    assert on_disturbed(tree) == frozenset()
    assert said in [text.text for text in notes(tree)]


def with_choice(
    tree: Tree, step_speedup: float | None, trained_in: str | None
) -> tuple[Tree, set[tuple[str, str]]]:
    """The run with these columns in all rows of its choice, and where these are."""
    path = tree.path / "problems/tp_mlp/choice.parquet"
    rows = [
        row | {"step_speedup": step_speedup, "trained_in": trained_in}
        for row in read(CHOICE, path).to_dicts()
    ]
    write(CHOICE, rows, path)
    path.with_suffix(".sidecar.json").unlink(missing_ok=True)
    return Tree(path=tree.path), {(row["case"], row["direction"]) for row in rows}


def test_a_trained_case_stands_on_the_launches_of_its_models(whole: Path, tmp_path: Path) -> None:
    tree, places = with_choice(tree_with(whole, tmp_path, steps=(0, 1, 4)), 3.0, "nano m8")
    assert on_disturbed(tree) == places
    assert "in mostly disturbed launches" in str(blocks(tree)[1])
    tree, _ = with_choice(tree, 3.0, "another m8")
    assert on_disturbed(tree) == frozenset()
    assert "in mostly disturbed launches" not in str(blocks(tree)[1])


def test_a_case_that_no_model_has_stands_on_the_launch_of_the_bench(whole: Path, tmp_path: Path) -> None:
    tree, places = with_choice(tree_with(whole, tmp_path, bench=(0,), steps=(0, 1, 4)), None, None)
    assert on_disturbed(tree) == places
    assert (
        "1 of 1 launch of the bench of tp_mlp, 3 of 5 launches of the training of nano" in disturbed(tree)[0]
    )
    tree, _ = with_choice(tree_with(whole, tmp_path / "quiet", steps=(0, 1, 4)), None, None)
    assert on_disturbed(tree) == frozenset()
