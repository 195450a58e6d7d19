"""The page of runs that have everything, and of runs that lack this or that."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from overlayccl_core.report import costs, deployed, gain, headline, prediction, rejected, training
from overlayccl_core.report.blocks import Block, Cards, Table, Text
from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree, trees_of
from tests.report.fixture_tree import write_tree


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy to take something from."""
    return Path(shutil.copytree(whole, tmp_path / "local"))


def words(blocks: list[Block]) -> str:
    """All that some blocks say."""
    said: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            said.append(block.text)
        elif isinstance(block, Cards):
            said += [
                text for card in block.cards for text in (card.title, card.figure, card.unit, *card.lines)
            ]
        else:
            said.append(block.title)
        if isinstance(block, Table):
            said += [cell for row in block.rows for cell in row]
    return " ".join(said)


def test_what_was_chosen_stands_first_with_its_worth(whole: Path) -> None:
    tree = Tree(path=whole)
    (small, large) = headline.cards_of(tree).cards
    assert (small.title, large.title) == ("nano, 2 microbatches", "nano, 8 microbatches")
    assert large.figure.startswith("6.") and large.unit.startswith("as fast as developer (")
    assert any(line.startswith("over the best other arm, hand bundled: 1.3") for line in large.lines)


def test_every_arm_has_its_ratio_and_big_batch_is_no_rival(whole: Path) -> None:
    found = headline.blocks(Tree(path=whole))
    table = next(b for b in found if isinstance(b, Table) and b.title == "nano, 8 microbatches: every arm")
    assert [row[0] for row in table.rows] == [
        *("developer", "single graph", "hand bundled", "finalist 2", "finalist 1 (chosen)"),
        "big batch (no rival)",
    ]
    assert table.strong == frozenset({4})


def test_where_nothing_beats_the_baseline_it_is_said(tmp_path: Path) -> None:
    tree = Tree(path=write_tree(tmp_path / "local", chosen="developer", problems=("tp_mlp",), data=False))
    assert "nothing beats the baseline" in words([headline.cards_of(tree)])
    assert "nothing beats the baseline" in words(headline.blocks(tree))
    assert "there is no gain" in words(gain.blocks(tree))


@pytest.mark.parametrize(
    ("gone", "part", "said"),
    [
        (["train"], headline.blocks, "No model was trained"),
        (["train"], gain.blocks, "No model was trained"),
        (["train"], training.blocks, "No model was trained"),
        (["problems/tp_mlp/choice.parquet"], headline.blocks, "nothing was chosen for it"),
        (["problems/tp_mlp/choice.parquet"], deployed.blocks, "Nothing was chosen"),
        (["problems/tp_mlp/choice.parquet"], costs.blocks, "Nothing was chosen"),
        (["deploy"], deployed.blocks, "No module was deployed"),
        (["problems/tp_mlp/search"], rejected.blocks, "No search has run"),
        (["problems/tp_mlp/verdicts.parquet"], rejected.blocks, "No gate has said anything"),
        (["theta.parquet", "problems"], prediction.blocks, "No Program was both priced and measured"),
        (["logs"], deployed.conditions, "has left its duration"),
    ],
)
def test_a_part_that_was_not_made_is_shown_as_missing(
    run: Path, gone: list[str], part: Callable[[Tree], list[Block]], said: str
) -> None:
    for name in gone:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert said in words(part(Tree(path=run)))


def test_a_run_with_probes_alone_has_a_page(run: Path) -> None:
    for name in ("problems", "train", "deploy", "logs"):
        shutil.rmtree(run / name)
    text = page(trees_of([run]))
    assert "No model was trained" in text and "predicted against measured" in text


def test_a_damaged_table_is_named_with_its_mend(run: Path) -> None:
    file = run / "train/nano/steps.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"steps.parquet.*truncated.*Make it again"):
        headline.cards_of(Tree(path=run))


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run has left a table here: run snakemake"):
        trees_of([tmp_path])
    with pytest.raises(ValueError, match="there is no such folder"):
        trees_of([tmp_path / "nowhere"])


def test_a_run_is_given_once(run: Path) -> None:
    with pytest.raises(ValueError, match="every run is given once"):
        trees_of([run, run / ".." / "local"])


def test_verdicts_searches_and_conditions_are_told(whole: Path) -> None:
    tree = Tree(path=whole)
    said = words(rejected.blocks(tree))
    for part in (
        "slower beyond noise",
        "ended: no new elite",
        "proposals",
        "of the library that are out",
    ):
        assert part in said
    said = words(deployed.conditions(tree))
    for part in (
        "more ranks than cores",
        "Nothing here is emulated",
        "probes of the cost model",
        "host test",
    ):
        assert part in said


def test_regret_and_fidelity_stand_beside_the_repeat_error(whole: Path) -> None:
    said = words(prediction.blocks(Tree(path=whole)))
    for part in (
        "held-out mixed Programs: median error",
        "beside a repeat error of",
        "Regret is",
        "at most 3.0%",
    ):
        assert part in said


def test_the_page_is_whole_in_itself_and_the_same_every_time(run: Path) -> None:
    shutil.rmtree(run / "train")
    shutil.rmtree(run / "problems")
    text = page(trees_of([run]))
    assert text == page(trees_of([run]))
    addresses = ("http://www.w3.org/",)  # names of namespaces: nothing is fetched from them
    rest = text
    for address in addresses:
        rest = rest.replace(address, "")
    assert "http:" not in rest and "https:" not in rest and "<script" not in rest
