"""The page of runs that have everything, and of runs that lack this or that."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.cli import verdicts
from overlayccl_core.digest import ROOT, closure
from overlayccl_core.report import deployed as deployed_part
from overlayccl_core.report import gain, headline, prediction, price_chart, rejections, spending, training
from overlayccl_core.report.blocks import TIMES, Block, Cards, TableBlock, Text
from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree, trees_of
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.probes import PROBES
from tests.report.fixture_rows import put, settings
from tests.report.fixture_tree import write_tree
from tests.report.test_worth import deployed, rival, worth
from tests.took import took


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy to take something from."""
    return Path(shutil.copytree(whole, tmp_path / "local"))


@pytest.fixture(scope="module")
def faster_ddp(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A run whose data parallel model deploys what people write, which is slower than DDP."""
    return Tree(path=write_tree(tmp_path_factory.mktemp("ddp") / "local", problems=("grad_ar",)))


def words(blocks: list[Block]) -> str:
    """All that some blocks say."""
    said: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            said.append(block.text)
        elif isinstance(block, Cards):
            said += [
                text
                for card in block.cards
                for text in (card.title, card.lead, card.figure, card.unit, *card.lines)
            ]
        else:
            said.append(block.title)
        if isinstance(block, TableBlock):
            said += [cell for row in block.rows for cell in row]
    return " ".join(said)


def test_a_card_says_first_what_has_to_be_read_first_then_the_gain_over_the_rival(whole: Path) -> None:
    (card,) = headline.cards_of(Tree(path=whole)).cards
    assert card.title == "nano" and card.tone == "good"
    assert "splitting the batch wins" in card.lead and "(M = 1)" in card.lead
    assert card.figure == f"1.08{TIMES}"
    unit = ("same or less memory", "best known way at M = 1", "(1.05..1.11), faster")
    assert all(part in card.unit for part in unit)
    assert all(part in card.lines[0] for part in ("(M = 1)", "all_to_all_of_copies"))
    assert all(part in card.lines[1] for part in ("developer at M = 1", "fastest: 1.37"))


def test_where_torch_is_faster_the_card_leads_with_that(faster_ddp: Tree) -> None:
    (card,) = (c for c in headline.cards_of(faster_ddp).cards if c.title == "nano-dp")
    assert card.figure == "keep torch DDP (25 MiB)" and card.tone == "warning"
    assert card.lead.startswith("Keep torch DDP (25 MiB)") and "same or less memory" in card.lead
    assert "search added nothing" in card.lead and "chosen is hand bundled" in card.lead


@pytest.mark.parametrize(
    ("ratio", "figure", "lead", "tone"),
    [
        ((1.4, 1.2, 1.6), "no search needed", "", "plain"),
        ((1.05, 0.8, 1.3), "no search needed", "", "plain"),
        ((0.9, 0.69, 1.17), f"0.90{TIMES}", "It is undecided", "warning"),
        ((0.98, 0.96, 1.01), f"0.98{TIMES}", "The search added nothing", "plain"),
    ],
)
def test_between_known_ways_a_card_has_a_number_where_the_rival_measured_faster(
    ratio: tuple[float, ...], figure: str, lead: str, tone: str
) -> None:
    """Its headline is what its first sentence and the table at the end of a run say."""
    mine = deployed(ran_as="hand_bundled", needs_search=False)
    told = worth(mine, rival(2, "developer", *ratio), chosen="hand_bundled")
    card = headline._card(told)
    assert card.figure == figure and card.lead.startswith(lead) and card.tone == tone
    assert bool(card.lead) is bool(lead) and "search added nothing" in card.lead + card.unit
    last = verdicts._verdict(told)[-1]
    assert last.split()[0] == figure.removesuffix(TIMES).split()[0]


def test_a_gain_beyond_noise_over_the_rival_is_good_news_and_nothing_less_is() -> None:
    def tone(*gain: float) -> str:
        return headline._card(worth(deployed(), rival(2, "hand_bundled", *gain))).tone

    assert tone(1.3, 1.2, 1.4) == "good"
    assert tone(1.01, 0.97, 1.05) == "plain"
    assert tone(1.1, 0.9, 1.3) == tone(1.3) == "warning"


def test_every_way_stands_in_the_table_with_its_time_memory_and_ratio(whole: Path) -> None:
    parts = headline.blocks(Tree(path=whole))
    (table,) = (b for b in parts if isinstance(b, TableBlock) and b.title.startswith("nano: ways to split"))
    rows = {row[0]: row[1:] for row in table.rows}
    assert len(rows) == len(table.rows) == 19
    (strong,) = table.strong
    assert table.rows[strong][0] == "M = 1, the chosen file"
    assert rows["M = 1, hand bundled"][-1] == "single graph"
    ratio = "1.08\N{MULTIPLICATION SIGN} (1.05..1.11)"
    known = rows["M = 1, best known way (rival)"]
    assert known == ("132 ms", "12.7 MiB", ratio, "faster", "no", "\N{EN DASH}")
    assert rows["M = 8, developer"][:2] == ("860 ms", "1.62 MiB")


def test_where_developers_own_calls_are_deployed_there_is_no_gain(tmp_path: Path) -> None:
    tree = Tree(path=write_tree(tmp_path / "local", chosen="developer", problems=("tp_mlp",), data=False))
    said = words([headline.cards_of(tree)])
    assert "search added nothing" in said and "chosen is developer, the calls that" in said
    assert "there is no gain" in words(gain.blocks(tree))


def test_a_case_is_told_with_its_gains_and_whose_step_counts(faster_ddp: Tree) -> None:
    said = words(deployed_part.blocks(faster_ddp))
    assert "In 1 of them the search" in said and "keep torch DDP (25 MiB)" in said
    assert re.search("grad_ar/n4-t4-420B-f32, .*nano-dp m1", said) and "flat (= hand bundled)" in said
    assert "1.21" in said and "(1.16..1.30), faster" in said


def test_disturbed_passes_and_a_faster_best_other_are_said_before_the_table(run: Path) -> None:
    rows = pl.read_parquet(run / "deployed.parquet").to_dicts()
    changed = {"gain": 0.9, "gain_low": 0.85, "gain_high": 0.95, "trained_in": None, "disturbed": True}
    changed |= {"instead": "hand_bundled", "use": "known"}
    put(DEPLOYED, [{**one, **changed} for one in rows], run / "deployed.parquet")
    (warned,) = (b.text for b in deployed_part.blocks(Tree(path=run)) if getattr(b, "tone", "") == "warning")
    assert "use hand bundled" in warned and "Disturbed: " in warned
    assert "4.1 ms, disturbed" in words(deployed_part.blocks(Tree(path=run)))


@pytest.mark.parametrize(
    ("gone", "part", "said"),
    [
        (["splits.parquet"], gain.blocks, "No model was timed"),
        (["train"], training.blocks, "No model was trained"),
        (["splits.parquet"], headline.blocks, "No model was trained"),
        (["deployed.parquet"], headline.blocks, "Nothing was timed again"),
        (["deployed.parquet"], deployed_part.blocks, "Nothing was timed again"),
        (["problems/tp_mlp/choice.parquet"], deployed_part.blocks, "Nothing was chosen"),
        (["problems/tp_mlp/choice.parquet"], price_chart.blocks, "Nothing was chosen"),
        (["deploy"], deployed_part.blocks, "No module was deployed"),
        (["problems/tp_mlp/search"], rejections.blocks, "No search has run"),
        (["problems/tp_mlp/verdicts.parquet"], rejections.blocks, "No gate has said"),
        (["theta.parquet", "problems"], prediction.blocks, "No Program was both"),
        (["logs"], spending.blocks, "has left its duration"),
        (["splits.parquet"], spending.blocks, "was timed in a model's"),
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
    for name in ("deployed", "splits", "confirmed", "confirmed_steps", "confirmed_stamps"):
        (run / f"{name}.parquet").unlink()
    text = page(trees_of([run]))
    parts = ("No model was trained", "Nothing was timed again", "predicted against")
    assert all(part in text for part in parts)


def test_a_damaged_table_is_named_with_its_mend(run: Path) -> None:
    file = run / "train/nano/steps.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"steps.parquet.*truncated.*Make"):
        training.blocks(Tree(path=run))


def test_verdicts_searches_and_conditions_are_told(whole: Path) -> None:
    tree = Tree(path=whole)
    said = words(rejections.blocks(tree))
    for part in ("away from the unsharded", "ended: no new elite", "proposals", "library that are out"):
        assert part in said
    said = words(deployed_part.conditions(tree))
    for part in ("more ranks than", "Nothing here is emulated", "probes of the", "that confirm", "host test"):
        assert part in said


@pytest.mark.parametrize(
    ("fingerprint", "told"),
    [
        ("emulated a made-up clock, numpy 2 #0", "of a made-up clock"),
        ("cpu A, links 100 Mbit/s emulated #0", "(100 Mbit/s)"),
    ],
    ids=["library", "links"],
)
def test_what_is_emulated_is_told_in_place_of_the_libraries_figures(
    fingerprint: str, told: str, run: Path
) -> None:
    path = run / "probes.parquet"
    table = pl.read_parquet(path).with_columns(fingerprint=pl.lit(fingerprint))
    put(PROBES, table.to_dicts(), path, settings().part("probe"))
    tree = Tree(path=run)
    for said in (words(deployed_part.conditions(tree)), words(list(deployed_part.notes(tree)))):
        assert "Emulated: " in said and told in said
        assert "Nothing here is emulated" not in said


def test_regret_and_fidelity_stand_beside_the_repeat_error(whole: Path) -> None:
    said = words(prediction.blocks(Tree(path=whole)))
    for part in ("the median error is", "(repeat error", "Regret is", "at most 3.0%"):
        assert part in said


def test_the_page_is_whole_in_itself_and_the_same_whenever_it_is_drawn(run: Path) -> None:
    """The times of the rules that only show are not on it: one may run beside the page's own."""
    shutil.rmtree(run / "train")
    shutil.rmtree(run / "problems")
    text = page(trees_of([run]))
    for rule in ("report", "summary"):
        took(run / f"logs/{rule}.log", 12.25)
    assert text == page(trees_of([run]))
    assert 'href="theta.parquet"' in text
    rest = text.replace("http://www.w3.org/", "")  # names of namespaces: nothing is fetched from them
    assert "http:" not in rest and "https:" not in rest and "<script" not in rest


def test_the_pages_template_and_style_are_code_of_the_rule() -> None:
    names = {path.relative_to(ROOT).name for path in closure("report")}
    assert {"page.html.jinja", "style.css", "page.py"} <= names
