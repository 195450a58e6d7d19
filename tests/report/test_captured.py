"""The section of a captured step: its sites with costs and ways, and when its calls were under way."""

from pathlib import Path

from overlayccl_core.report.blocks import NOTHING, Figure, TableBlock, Text
from overlayccl_core.report.captured import blocks
from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.captured import CAPTURED_CALLS, CaptureSource
from overlayccl_core.tables.table import write
from tests.observing.captured_rows import call, step, summed
from tests.observing.test_overview import at, timed

CALLS = [summed(8, line="/home/me/train.py:12"), call("broadcast", root=0, line="/home/me/train.py:30")]


def test_a_run_of_other_cases_has_no_such_section(run: Path) -> None:
    assert not blocks(Tree(path=run))
    assert "The captured step" not in page([Tree(path=run)])


def test_sites_have_lines_costs_and_ways_and_the_figure_what_is_hidden(run: Path) -> None:
    table = timed(step(CALLS), [at(0, 100, 400, 300), at(800, 50, None, 0)])
    write(CAPTURED_CALLS, table, run / "captured_calls.parquet")
    tree = Tree(path=run)
    found = blocks(tree)
    (sites,) = (one for one in found if isinstance(one, TableBlock))
    assert [(row[0], *row[6:7], *row[8:]) for row in sites.rows] == [
        ("train.py:12", "400 us", "<0.001", "grad_ar"),
        ("train.py:30", "50 us", NOTHING, "stays: no ways of broadcast"),
    ]
    (figure,) = (one for one in found if isinstance(one, Figure))
    assert "the script is in the call or waits, 300 us" in figure.wide and "in flight, 700 us" in figure.wide
    assert {source.file for one in found for source in one.sources} == {"captured_calls.parquet"}
    assert "The captured step" in page([tree])


def test_without_times_there_is_no_figure_and_the_text_says_why(run: Path) -> None:
    unknown = {"call_us": None, "blocked_us": None, "used_us": None, "done_us": None}
    calls = [
        {**one, **unknown, "source": CaptureSource.PROFILER, "depends_on": None}
        for one in step(CALLS).to_dicts()
    ]
    write(CAPTURED_CALLS, calls, run / "captured_calls.parquet")
    found = blocks(Tree(path=run))
    assert not [one for one in found if isinstance(one, Figure)]
    assert any("profiler" in one.text for one in found if isinstance(one, Text))
