"""The page of runs that have everything, and of runs that lack this or that."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report import costs, deployed, gain, headline, prediction, rejected, spent, training
from overlayccl_core.report.arms import Arm
from overlayccl_core.report.blocks import Block, Cards, Table, Text
from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree, trees_of
from tests.report.fixture_tree import write_tree


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy to take something from."""
    return Path(shutil.copytree(whole, tmp_path / "local"))


@pytest.fixture(scope="module")
def faster_ddp(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A run whose data parallel model deploys a finalist that is hand_bundled itself, and slower than DDP."""
    return Tree(path=write_tree(tmp_path_factory.mktemp("ddp") / "local", problems=("grad_ar",)))


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
    assert large.figure.startswith("1.3")
    assert large.unit.startswith("as fast as the best other arm, hand bundled (1.")
    assert large.lines[0] == "faster than hand bundled in 5 of 5 launches"
    assert large.lines[1].startswith("over developer: 6.") and large.tone == "good"


def test_where_torch_is_faster_the_card_leads_with_that(faster_ddp: Tree) -> None:
    (card,) = (c for c in headline.cards_of(faster_ddp).cards if c.title.startswith("nano-dp"))
    assert card.figure.startswith("0.9") and card.tone == "warning"
    assert card.unit.startswith("as fast as the best other arm, torch DDP, 25 MiB (0.")
    assert card.lines[0] == "slower than torch's own DDP, 25 MiB in 5 of 5 launches"
    assert card.lines[2].startswith("over developer: 2.")
    said = words(headline.blocks(faster_ddp))
    assert "over torch DDP, 1 MiB: 0.9" in said
    assert "slower than torch's own DDP" in said and "within noise" not in said


def test_a_finalist_that_is_an_arm_of_people_is_called_by_that(faster_ddp: Tree) -> None:
    same = "finalist 1 runs the same Programs as hand bundled: they differ by noise only, 1."
    assert same in words([headline.cards_of(faster_ddp)])
    assert same in words(headline.blocks(faster_ddp))
    assert f'nano-dp, 2 microbatches: no step "another primitive": {same}' in words(gain.blocks(faster_ddp))


def test_within_noise_is_said_where_the_interval_holds_1_alone() -> None:
    def arm(name: str, *us: float) -> Arm:
        timed = {(n, n): (t, t, t) for n, t in enumerate(us)}
        return Arm(name=name, timed=timed, quiet={}, collectives=None, peak_activation_bytes=None)

    base = arm("hand_bundled", 100, 100, 100, 100)

    def said(low: float, high: float, *us: float) -> str:
        return headline.standing(
            arm("finalist_1", *us), base, Ratio(value=(low + high) / 2, low=low, high=high)
        )

    assert said(0.9, 1.1, 90, 110, 95, 105).startswith(
        "within noise of hand bundled (the interval holds 1): slower in 2 of 4"
    )
    assert said(0.9, 0.99, 105, 110, 95, 105).startswith("slower than hand bundled in 3 of 4")
    assert said(1.01, 1.1, 90, 90, 90, 110).startswith("faster than hand bundled in 3 of 4")
    assert (
        said(0.9, 1.05, 101, 104, 105, 110)
        == "slower than hand bundled in 4 of 4 launches, though the interval holds 1"
    )


def test_a_quicker_big_batch_is_said_with_why_it_is_no_rival(tmp_path: Path) -> None:
    said = words(
        headline.blocks(Tree(path=write_tree(tmp_path / "local", chosen="hand_bundled", data=False)))
    )
    assert "Big batch is 1.1" in said and "no rival: it computes all microbatches as one" in said


def test_every_arm_has_its_ratio_and_big_batch_is_no_rival(whole: Path) -> None:
    parts = headline.blocks(Tree(path=whole))
    table = next(b for b in parts if isinstance(b, Table) and b.title == "nano, 8 microbatches: every arm")
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
        (["logs"], spent.blocks, "has left its duration"),
        (["train"], spent.blocks, "No trained arm is deployed"),
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
        "held-out mixed Programs the median error is",
        "(repeat error",
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
