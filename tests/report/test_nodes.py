"""What is said of the nodes of all that a run measured."""

import shutil
from pathlib import Path

import polars as pl

from overlayccl_core.launching.node_report import nodes_text
from overlayccl_core.report.deployed import notes
from overlayccl_core.report.measured import of_nodes
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import STEPS
from overlayccl_core.tables.table import Table, read, write

ONE, OTHER = (nodes_text([("n0", {"kernel": one}), ("n1", {"kernel": one})]) for one in ("6.1", "6.2"))


def tell(tree: Tree, table: Table, name: str, nodes: str, off_by_us: float = 0.0) -> None:
    """All launches of a table had such nodes, with clocks so far off."""
    path = tree.path / f"{name}.parquet"
    frame = read(table, path).with_columns(nodes=pl.lit(nodes), clock_off_by_us=pl.lit(off_by_us))
    write(table, frame.to_dicts(), path)
    path.with_suffix(".sidecar.json").unlink(missing_ok=True)  # it is of the table before


def copied(whole: Path, folder: Path) -> Tree:
    return Tree(path=Path(shutil.copytree(whole, folder / "local")))


def test_nothing_is_said_of_a_run_on_one_host(whole: Path, tmp_path: Path) -> None:
    assert of_nodes(copied(whole, tmp_path)) == []


def test_a_bench_on_other_nodes_than_the_probes_is_told(whole: Path, tmp_path: Path) -> None:
    tree = copied(whole, tmp_path)
    tell(tree, PROBES, "probes", ONE)
    tell(tree, BENCH, "problems/tp_mlp/bench", OTHER)
    [said] = of_nodes(tree)
    assert f"differ: {ONE}; others on {OTHER}." in said
    assert said in [text.text for text in notes(tree)]


def test_clocks_that_differ_by_a_share_of_a_step_are_told(whole: Path, tmp_path: Path) -> None:
    tree = copied(whole, tmp_path)
    shortest_us = read(STEPS, tree.path / "train/nano/steps.parquet")["steps_us"].list.min().min()
    assert isinstance(shortest_us, float)
    tell(tree, STEPS, "train/nano/steps", ONE, 0.05 * shortest_us)
    [said] = of_nodes(tree)
    assert ", 5.0% of the shortest" in said
