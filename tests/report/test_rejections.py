"""Why the searches ended, as the report tells it: from the table, never from a log."""

from pathlib import Path

import pytest

from overlayccl_core.report import rejections
from overlayccl_core.report.blocks import TableBlock, Text
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from tests.report.fixture_rows import put
from tests.rows import row

ENDS = "problems/tp_mlp/search/offline/search_ends.parquet"


def told(tree: Path, *whys: str) -> tuple[Text, TableBlock]:
    """What is said of searches that ended so."""
    rows = [
        row(SEARCH_ENDS, case=f"tp_mlp/n{n}", why=why, search="offline", proposals=n, message=f"said {n}")
        for n, why in enumerate(whys)
    ]
    put(SEARCH_ENDS, rows, tree / ENDS)
    *_, text, table = rejections.blocks(Tree(path=tree))[:5]
    assert isinstance(text, Text) and isinstance(table, TableBlock)
    return text, table


def test_searches_that_ended_by_themselves_are_good_news(run: Path) -> None:
    text, table = told(run, "no_new_elite", "no_exchange", "no_new_elite")
    parts = ("Of 3 searches", "2 ended by themselves", "1 had nothing", "no guard")
    assert all(part in text.text for part in parts) and text.tone == "good"
    assert table.title.startswith("Why the searches ended")
    assert table.rows[0] == ("tp_mlp/n0, forward", "offline", "by itself: no new elite", "0", "said 0")


def test_what_a_guard_cut_is_a_warning_that_names_it_and_stands_first(run: Path) -> None:
    text, table = told(run, "no_new_elite", "seconds", "programs", "no_base", "programs", "rounds")
    parts = ("1 had no right", "4 were cut", "2 by `programs`", "1 by `rounds`", "1 by `seconds`")
    assert all(part in text.text for part in parts) and text.tone == "warning"
    assert [line[0] for line in table.rows] == [f"tp_mlp/n{n}, forward" for n in (2, 4, 5, 1, 3, 0)]
    assert "guard `programs`" in table.rows[0][2]


@pytest.mark.parametrize(
    ("why", "said"), [("proposer_failed", "the proposer failed"), ("no_base", "no right strategy")]
)
def test_a_search_that_could_not_go_on_is_a_warning_and_stands_first(run: Path, why: str, said: str) -> None:
    text, table = told(run, "no_new_elite", why)
    assert said in text.text and text.tone == "warning"
    assert table.rows[0][2] == rejections.ENDS[why]


def test_a_long_list_says_how_much_of_it_is_shown(run: Path) -> None:
    _, table = told(run, *["no_new_elite"] * 100, "seconds")
    assert table.title.endswith("(the first 80 of 101)")
    assert len(table.rows) == 80
    assert table.rows[0][0] == "tp_mlp/n100, forward"


def test_every_way_to_end_has_words() -> None:
    (column,) = (c for c in SEARCH_ENDS.columns if c.name == "why")
    assert set(rejections.ENDS) == set(column.values)


def test_logs_are_not_read(run: Path) -> None:
    (run / "logs" / "search-tp_mlp-offline.log").write_text("[12:00:01] search: a line; ended: rounds\n")
    cells = [
        c for b in rejections.blocks(Tree(path=run)) if isinstance(b, TableBlock) for r in b.rows for c in r
    ]
    assert any("ended: no new elite" in cell for cell in cells)
    assert not any("a line" in cell for cell in cells)


def test_a_run_without_the_table_says_so(run: Path) -> None:
    (run / ENDS).unlink()
    (text,) = (
        b for b in rejections.blocks(Tree(path=run)) if isinstance(b, Text) and "was not recorded" in b.text
    )
    assert text.tone == "missing" and "snakemake" in text.text
