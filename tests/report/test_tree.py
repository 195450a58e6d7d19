"""A tree is all that is there, or only the files that a rule declares: then what others left is not seen."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from overlayccl_core.report import deployed, headline
from overlayccl_core.report.blocks import Block, Cards, Source, TableBlock, Text, only, with_sources
from overlayccl_core.report.page import TITLES, page
from overlayccl_core.report.payback import cost_of
from overlayccl_core.report.tree import Tree, of_summary
from overlayccl_core.tables.probes import PROBES
from tests.took import took

LEFT = "grad_ar"  # a Problem that another run left


def test_what_is_not_declared_is_not_seen(run: Path) -> None:
    shutil.copytree(run / "problems/tp_mlp", run / "problems" / LEFT)
    for job in (
        "fit",
        "bench-tp_mlp",
        f"bench-{LEFT}",
        "search-tp_mlp-offline",
        "search-tp_mlp-other",
        "trial-tp_mlp-offline",
        "train-gone",
        "of_no_rule",
    ):
        took(run / "logs" / f"{job}.log", 1.5)
    everything = Tree(path=run)
    assert LEFT in everything.problems
    files = frozenset(path for path in run.rglob("*") if LEFT not in path.as_posix())
    some = Tree(path=run, files=files)
    assert set(some.problems) == set(everything.problems) - {LEFT}
    assert some.models == everything.models
    jobs, of_all = ({phase.name for phase in one.phases} for one in (some, everything))
    assert {"fit", "bench-tp_mlp", "search-tp_mlp-offline"} <= jobs == of_all - {f"bench-{LEFT}"}
    assert "trial-tp_mlp-offline" in jobs  # though the second round of that search has not run
    assert not {"search-tp_mlp-other", "train-gone", "of_no_rule"} & of_all  # of what has no table here
    assert some.choice is not None and everything.choice is not None
    assert 2 * some.choice.height == everything.choice.height


def test_answers_alone_are_of_no_search_that_ran(run: Path) -> None:
    """As `overlayccl ask` leaves them: no search of that name owes a duration, and break-evens stay."""
    took(run / "logs" / "fit.log", 1.5)
    before = cost_of(Tree(path=run))
    for search in ("problems/tp_mlp/search/claude", f"problems/{LEFT}/search/claude"):
        (run / search / "answers").mkdir(parents=True)
        (run / search / "answers" / f"{'0f' * 32}.json").write_text("{}")
    after = Tree(path=run)
    assert "claude" not in after.searches("tp_mlp") and LEFT not in after.problems
    assert before is not None and before == cost_of(after)


def test_a_summary_tells_of_which_tables_it_is(run: Path) -> None:
    assert of_summary(run) is None
    shutil.copytree(run / "problems/tp_mlp", run / "problems" / LEFT)
    inputs = dict.fromkeys(
        ["results/local/problems/tp_mlp/choice.parquet", "results/local/probes.parquet"], ""
    )
    (run / "summary.sidecar.json").write_text(json.dumps({"inputs": inputs}))
    tree = Tree(path=run, files=of_summary(run))
    assert tree.problems == ("tp_mlp",) and not tree.models
    assert tree.deployed is not None and tree.table(PROBES, "probes") is not None


FILES = re.compile(r'<a href="local/([^"#]+)">')  # of a page beside the run's folder


@pytest.fixture(scope="module")
def told(whole: Path) -> list[tuple[str, Block]]:
    """(part of the page, block), with what stands above all parts."""
    tree = Tree(path=whole)
    top: list[Block] = [headline.cards_of(tree), *deployed.notes(tree)]
    rest = [(name, block) for name, (_, build) in TITLES.items() for block in build(tree)]
    return [*(("top", block) for block in top), *rest]


def constants() -> set[str]:
    """Texts that are the same on every page."""
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith(headline.__package__)]
    return {value for names in modules for value in names.values() if isinstance(value, str)}


def test_every_figure_table_card_and_sentence_with_a_figure_tells_its_sources(
    whole: Path, told: list[tuple[str, Block]]
) -> None:
    fixed = constants()
    for part, block in told:
        if isinstance(block, Text) and (block.tone == "missing" or block.text in fixed):
            continue
        if isinstance(block, TableBlock) and block.rows == headline.WORDS:
            continue
        assert block.sources, (part, block)
        assert all((whole / source.file).is_file() for source in block.sources), (part, block)


@pytest.mark.parametrize(
    ("part", "title", "tables"),
    [
        ("top", "", {"confirmed_steps", "deployed", "splits"}),
        ("worth", "nano: ways to split", {"splits", "deployed"}),
        ("deployed", "Files to take away", {"deployed files"}),
        ("deployed", "Stamps", {"confirmed_stamps"}),
        ("model", "How right the model was", {"fidelity"}),
        ("training", "nano, 1 microbatch: every arm", {"steps"}),
        ("rejected", "Proposals by rewrite rule", {"sketches"}),
        ("rejected", "Why the searches ended", {"search_ends"}),
        (
            "cost",
            "After how many",
            {"confirmed_steps", "deployed", "attempts", "probes", "splits", "stamps"},
        ),
        ("cost", "What was spent", {"attempts", "probes", "stamps"}),
        ("cost", "local: how long each job ran", {"attempts"}),
    ],
)
def test_a_block_is_of_what_was_read_for_it_alone(
    told: list[tuple[str, Block]], part: str, title: str, tables: set[str]
) -> None:
    (block,) = (
        block
        for where, block in told
        if where == part and not isinstance(block, Text)
        if isinstance(block, Cards) or block.title.startswith(title)
    )
    assert {source.table for source in block.sources} == tables


def test_the_rule_that_wrote_a_file_is_told(told: list[tuple[str, Block]]) -> None:
    of = {source.file: source.rule for _, block in told for source in block.sources}
    assert of["fidelity.parquet"] == "fit" and of["problems/tp_mlp/fidelity.parquet"] == "finalists"
    assert of["logs/bench-tp_mlp.attempts"] == "bench" and of["deploy/tp_mlp.py"] == "deploy"
    assert of["deploy/tp_mlp.json"] == "deploy"
    assert of["probes.sidecar.json"] == "probe"
    assert not of.keys() & {"logs/report.attempts", "logs/summary.attempts"}


def test_settings_are_of_the_sidecar_that_tells_them(whole: Path) -> None:
    tree = Tree(path=whole)
    with tree.reading() as read:
        assert tree.settings(PROBES, "probes") is not None
    assert read == {Source("probes (sidecar)", "probe", "probes.sidecar.json")}


def test_what_is_of_one_problem_is_not_of_the_others_files() -> None:
    read = {Source("bench", "bench", f"problems/{one}/bench.parquet") for one in ("grad_ar", "tp_mlp", "tp")}
    theta = Source("theta", "fit", "theta.parquet")
    (block,) = only("problems/tp", with_sources({*read, theta}, [Text(text="one Problem")]))
    assert {source.file for source in block.sources} == {"problems/tp/bench.parquet", "theta.parquet"}
    assert with_sources([theta], [block]) == [block]  # it has some


def test_the_page_links_the_files_of_each_block(whole: Path) -> None:
    html = page((Tree(path=whole),), whole.parent)
    top, _, rest = html.partition("<section")
    sections = re.findall(r'<section id="local-(\w+)">(.*?)</section>', "<section" + rest, flags=re.S)
    linked = {name: set(FILES.findall(text)) for name, text in (*sections, ("top", top))}
    assert linked["top"] >= {"splits.parquet", "deployed.parquet", "probes.parquet"}
    assert linked["deployed"] >= {"problems/tp_mlp/choice.parquet", "deploy/tp_mlp.py"}
    assert linked["cost"] >= {"logs/bench-tp_mlp.attempts", "logs/train-nano.attempts"}
    assert linked["conditions"] >= {"probes.sidecar.json"}
    assert all((whole / file).is_file() for files in linked.values() for file in files)
    assert "written by the rule <code>choose</code>" in dict(sections)["deployed"]
    assert "sketched" not in linked  # a part without blocks


def test_what_was_made_of_tables_once_is_of_them_whoever_asks_again(whole: Path) -> None:
    tree = Tree(path=whole)
    with tree.reading() as first:
        made = tree.worths
    with tree.reading() as again:
        assert tree.worths is made
    assert first == again
    assert {source.table for source in first} == {"splits", "deployed"}
