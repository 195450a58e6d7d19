"""Whether prices are as right as asked, and what the model's parts are worth: what a page says of it."""

import shutil
from pathlib import Path

import pytest

from overlayccl_core.costmodel.targets import PriceWord
from overlayccl_core.report import price_ablations
from overlayccl_core.report.accuracy import blocks, lines, verdicts
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.fidelity import FIDELITY
from tests.report.fixture_rows import put
from tests.rows import row

FIGURES = {
    "repeat_rel_error": 0.05,
    "median_rel_error": 0.04,
    "pair_accuracy": 1.0,
    "repeat_pair_accuracy": 1.0,
    "top1_regret": 0.0,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """One Problem is right, one too wrong, one too loud; each has a Case, too."""
    here = tmp_path_factory.mktemp("judged") / "run"
    for problem, change in (
        ("tp_mlp", {}),
        ("uniform_a2a", {"median_rel_error": 0.14, "top1_regret": 0.2}),
        ("grad_ar", {"repeat_rel_error": 0.1}),
    ):
        whole = row(FIDELITY, problem=problem, case=None, direction=None, **(FIGURES | change))
        rows = [whole, whole | {"case": f"{problem}/n4", "direction": "forward", "top1_regret": 0.9}]
        put(FIDELITY, rows, here / "problems" / problem / "fidelity.parquet")
    return Tree(path=here)


def test_each_problem_has_its_word(tree: Tree) -> None:
    assert {row["problem"]: one.word for row, one in verdicts(tree)} == {
        "tp_mlp": PriceWord.MET,
        "uniform_a2a": PriceWord.SHORT,
        "grad_ar": PriceWord.UNDECIDED,
    }


def test_the_page_has_a_row_for_each_and_the_line_names_what_falls_short(tree: Tree) -> None:
    _, table = blocks(tree)
    assert table.kind == "table"
    cells = {row[0]: row[-1] for row in table.rows}
    assert cells["uniform_a2a"] == "falls short: error 14.0% (at most 10.0%), regret 20.0% (at most 5%)"
    said, _ = lines(tree)
    assert "for 1 of 3 Problems" in said and "uniform_a2a (error 14.0%" in said and "8%: grad_ar" in said


def test_the_parts_of_the_model_stand_behind_the_whole_one(whole: Path) -> None:
    _, table = price_ablations.blocks(Tree(path=whole))
    assert table.kind == "table"
    assert [(*row[:2], row[3]) for row in table.rows] == [
        ("held-out mixed Programs", "nothing", "6.0%"),
        ("held-out mixed Programs", "collectives", "70.0%"),
        ("candidates of all benches", "nothing", "6.0%"),
        ("candidates of all benches", "collectives", "70.0%"),
    ]


def test_before_a_bench_there_is_nothing_to_say(tree: Tree, tmp_path: Path) -> None:
    shutil.copytree(tree.path, tmp_path / "run")
    benched = Tree(path=tmp_path / "run", files=frozenset())
    assert lines(benched) == blocks(benched) == []
