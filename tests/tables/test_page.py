"""docs/tables.md is what the schemas say, and they say what every column means."""

import importlib
import re
from pathlib import Path

import pytest

from overlayccl_core.tables import bench, page
from overlayccl_core.tables.candidate_columns import PROBLEM
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import Table
from tests.workflow.repository import outputs_of_rules

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_schemas_say() -> None:
    written = (ROOT / "docs/tables.md").read_text()
    assert written == page.page(), f"docs/tables.md is not of these schemas: {page.COMMAND}"


def test_every_schema_is_on_the_page() -> None:
    declared = {}
    for file in Path(bench.__file__).parent.glob("[!_]*.py"):
        module = importlib.import_module(f"overlayccl_core.tables.{file.stem}")
        declared |= {one.name: one for one in vars(module).values() if isinstance(one, Table)}
    assert {table.name: table for table in page.TABLES} | {
        table.name: table for table in page.OF_COMMANDS
    } == declared


@pytest.mark.parametrize("table", page.TABLES, ids=lambda table: table.name)
def test_a_schema_says_what_a_row_and_every_column_is_and_which_rule_writes_it(table: Table) -> None:
    assert table.row
    assert [column.name for column in table.columns if not column.doc] == []
    written = {file for rule in table.rule.split(", ") for file in outputs_of_rules()[rule]}
    path = re.sub(r"\[.*?\]", "", re.sub(r"<(\w+)>", r"{\1}", table.folder)) + f"{table.name}.parquet"
    assert f"results/{{deployment}}/{path}" in written


def test_columns_of_timings_stand_once() -> None:
    text = page.page()
    assert text.count("| `samples_us` |") == 1 and "[16 timing columns](#timing-columns)" in text
    assert "| `status` | text | `timed`, " in text and "| `operation`? | text | collective" in text


def test_tables_of_what_ran_are_found_by_their_columns() -> None:
    found = {
        "TIMED": {"probes", "bench", "confirmed", "compared_probes"},
        "TRAINED": {"steps", "confirmed_steps", "long_steps"},
        "OF_LAUNCHES": {"probes", "bench", "steps", "confirmed", "long_steps"},
        "OF_PROGRAMS": {"shortlist", "bench", "finalists", "confirmed"},
    }
    for name, known in found.items():
        assert known <= {table.name for table in getattr(page, name)}
    assert page.OF_PROGRAMS[0] == SHORTLIST  # its rows stand for equal ones of others
    assert {CANDIDATES, DEPLOYED}.isdisjoint((*page.OF_LAUNCHES, *page.OF_PROGRAMS))


@pytest.mark.parametrize("table", page.OF_PROGRAMS, ids=lambda table: table.name)
def test_a_table_of_programs_says_their_problem_by_its_folder_or_in_a_column(table: Table) -> None:
    """`overlayccl verify` proves them beside those of the Problem."""
    assert "<problem>" in table.folder or PROBLEM in table.columns
