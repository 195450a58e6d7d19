"""Where no model trains a Case, the report says so and shows the bench, by which was chosen."""

import polars as pl
import pytest

from overlayccl_core.cli.deployed_table import case_parts
from overlayccl_core.report import headline, passes
from overlayccl_core.report.blocks import NOTHING, TableBlock, Text
from overlayccl_core.report.rendering import breakable
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from tests.report.fixture_rows import put
from tests.report.fixture_tree import write_tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A run of two Problems, of which a model trains one."""
    folder = tmp_path_factory.mktemp("two") / "local"
    return Tree(path=write_tree(folder, problems=("tp_mlp", "uniform_a2a"), data=False))


def test_a_problem_without_a_model_says_so_and_shows_every_candidate_of_its_bench(tree: Tree) -> None:
    text, table = passes.blocks(tree)
    assert (
        isinstance(text, Text)
        and "trains uniform_a2a: chosen by the bench alone, in no training step" in text.text
    )
    assert isinstance(table, TableBlock) and table.title.startswith("uniform_a2a: the bench") and table.folded
    bench, choice = (
        tree.table(BENCH, "problems/uniform_a2a/bench"),
        tree.table(CHOICE, "problems/uniform_a2a/choice"),
    )
    assert bench is not None and choice is not None
    assert len(table.rows) == bench.select("case", "direction", "program").unique().height
    names = [table.rows[n][1].removesuffix(" (chosen)").split(" = ") for n in sorted(table.strong)]
    assert all(one in of for one, of in zip(choice["candidate"], names, strict=True))
    for row in table.rows:
        assert row[2] != NOTHING and " (" in row[3]  # its price and its time have ranges
        assert (row[4] == NOTHING) == row[1].startswith("native"), row  # developer's over itself is nothing
    assert [block for block in headline.blocks(tree) if block in (text, table)] == [text, table]


def test_a_program_of_several_strategies_has_one_row_with_all_names(tree: Tree) -> None:
    ways = tree.table(KNOWN_WAYS, "problems/uniform_a2a/known_ways")
    assert ways is not None
    again = ways.filter(pl.col("strategy") == "native").with_columns(
        strategy=pl.lit("again"), role=pl.lit("other")
    )
    path = tree.path / "problems/uniform_a2a/known_ways.parquet"
    put(KNOWN_WAYS, pl.concat([ways, again]).to_dicts(), path)
    try:
        table = passes.blocks(tree)[1]
    finally:
        put(KNOWN_WAYS, ways.to_dicts(), path)
    assert isinstance(table, TableBlock)
    assert sum("native = again" in row[1] for row in table.rows) == len({row[0] for row in table.rows})


def test_the_end_of_a_run_says_it_too(tree: Tree) -> None:
    assert tree.deployed is not None
    said = [part for part in case_parts(tree.deployed) if isinstance(part, str)]
    assert [s for s in said if "No model of this run" in s] == [passes.untrained_text(("uniform_a2a",))]


def test_names_may_be_broken_at_their_joints_only() -> None:
    assert breakable("grad_ar/n4-t27-3.5MiB") == "grad_<wbr>ar/<wbr>n4-<wbr>t27-<wbr>3.5MiB"
    assert breakable("-7.5 ms, 1,024 of <b>") == "-7.5 ms, 1,024 of &lt;b&gt;"
