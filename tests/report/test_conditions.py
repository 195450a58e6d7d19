"""Sentences on disturbed launches and on the nodes of all measurements."""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.launching.node_report import nodes_text
from overlayccl_core.report import conditions
from overlayccl_core.report.conditions import disturbed, of_nodes
from overlayccl_core.report.deployed import notes
from overlayccl_core.report.tree import Tree
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.page import OF_LAUNCHES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from overlayccl_core.tables.table import Table, read
from tests.report.fixture_rows import changed, put
from tests.workflow.graph import READS

BENCHED, TRAINED = (BENCH, "problems/tp_mlp/bench"), (STEPS, "train/nano/steps")
ONE, OTHER = (nodes_text([("n0", {"kernel": one}), ("n1", {"kernel": one})]) for one in ("6.1", "6.2"))


def disturb(run: Path, **launches: tuple[int, ...]) -> Tree:
    """Only these launches were disturbed."""
    confirmed = (CONFIRMED_STEPS, "confirmed_steps")
    for name, (table, path) in {"bench": BENCHED, "steps": TRAINED, "confirmed": confirmed}.items():
        those = pl.col("launch").is_in(launches.get(name, ()))
        changed(run, table, path, lambda frame, those=those: frame.with_columns(disturbed=those))
    return Tree(path=run)


def on_nodes(run: Path, table: Table, name: str, nodes: str, off_by_us: float = 0.0) -> None:
    """All launches of a table had such nodes, with clocks so far off."""
    columns = {"nodes": pl.lit(nodes), "clock_off_by_us": pl.lit(off_by_us)}
    changed(run, table, name, lambda frame: frame.with_columns(**columns))


def test_disturbed_launches_are_counted(run: Path) -> None:
    assert disturbed(disturb(run)) == []
    tree = disturb(run, steps=(3,))
    (said,) = disturbed(tree)
    assert all(part in said for part in ("Disturbed: ", "10%", "1 of 4 ", "chosen (nano)"))
    assert said in [text.text for text in notes(tree)]
    (said,) = disturbed(disturb(run, bench=(0,), steps=(0, 1, 2), confirmed=(1,)))
    assert re.search("1 of 1 .*tp_mlp.*3 of 4 .*nano.*1 of 4 .*confirm.*nano", said)


def test_a_bench_on_other_nodes_than_the_probes_is_told(run: Path) -> None:
    assert of_nodes(Tree(path=run)) == []
    on_nodes(run, PROBES, "probes", ONE)
    on_nodes(run, *BENCHED, OTHER)
    tree = Tree(path=run)
    (said,) = of_nodes(tree)
    assert f"differ: {ONE}; others on {OTHER}." in said
    assert said in [text.text for text in notes(tree)]


def test_clocks_that_differ_by_a_share_of_a_step_are_told(run: Path) -> None:
    shortest_us = read(STEPS, run / f"{TRAINED[1]}.parquet")["steps_us"].list.min().min()
    assert isinstance(shortest_us, float)
    on_nodes(run, *TRAINED, ONE, 0.05 * shortest_us)
    (said,) = of_nodes(Tree(path=run))
    assert ", 5.0% of the shortest" in said


def test_a_table_that_nothing_knows_but_its_declaration_is_counted(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = replace(BENCH, name="more")
    rows = read(BENCH, run / f"{BENCHED[1]}.parquet").with_columns(disturbed=True)
    put(more, rows.to_dicts(), run / "problems/tp_mlp/more.parquet")
    monkeypatch.setattr(conditions, "OF_LAUNCHES", (*conditions.OF_LAUNCHES, more))
    (said,) = disturbed(Tree(path=run))
    assert "1 of 1 launch of more (tp_mlp)" in said


def test_the_page_reads_every_table_of_launches() -> None:
    """Else what others disturbed in it stays unsaid: its table is an input of rule report, here and in rules/."""
    measured = {table.rule for table in OF_LAUNCHES} & rules(ALL).keys()
    assert measured <= READS["report"]
