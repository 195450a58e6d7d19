"""Equal to the byte, equal but for the last digits of numbers, or not."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.archiving.compare_files import difference
from overlayccl_core.archiving.findings import CheckOutcome

ROWS = {"name": ["a", "b"], "value": [1.0, None], "samples": [[1.0, 2.0], [3.0]], "count": [1, 2]}


def tables(folder: Path, changed: dict[str, Any]) -> tuple[Path, Path]:
    for name, rows in (("a", ROWS), ("b", ROWS | changed)):
        pl.DataFrame(rows).write_parquet(folder / f"{name}.parquet")
    return folder / "a.parquet", folder / "b.parquet"


@pytest.mark.parametrize(
    ("changed", "outcome", "named"),
    [
        ({}, CheckOutcome.EXACT, ""),
        ({"value": [1.0 + 1e-9, None]}, CheckOutcome.WITHIN, ""),
        ({"samples": [[1.0, 2.0 - 1e-9], [3.0]]}, CheckOutcome.WITHIN, ""),
        ({"value": [1.001, None]}, CheckOutcome.WRONG, "value, row 0: 1.0 .*1.001"),
        ({"value": [1.0, 0.0]}, CheckOutcome.WRONG, "column value, row 1"),
        ({"samples": [[1.0], [3.0]]}, CheckOutcome.WRONG, "column samples, row 0"),
        ({"samples": [[1.0, 2.1], [3.0]]}, CheckOutcome.WRONG, "column samples, row 0"),
        ({"count": [1, 3]}, CheckOutcome.WRONG, "column count, row 1"),
        ({"name": ["a", "it is 0.5"]}, CheckOutcome.WRONG, "column name, row 1"),
        ({"name": ["a", "c"]}, CheckOutcome.WRONG, "column name, row 1"),
        ({"more": [1, 2]}, CheckOutcome.WRONG, "of 4 .*2 of 5"),
    ],
)
def test_tables(tmp_path: Path, changed: dict[str, Any], outcome: CheckOutcome, named: str) -> None:
    found, message = difference(*tables(tmp_path, changed))
    assert found is outcome
    assert re.search(named, message)


@pytest.mark.parametrize(
    ("made", "told", "suffix", "outcome"),
    [
        (
            '{"error": 0.123456789012, "of": 3}',
            '{"error": 0.123456789013, "of": 3}',
            "json",
            CheckOutcome.WITHIN,
        ),
        ("<p>1.5e-07 in 2 steps</p>", "<p>1.50000001e-07 in 2 steps</p>", "html", CheckOutcome.WITHIN),
        ('{"error": 0.1234, "of": 3}', '{"error": 0.1235, "of": 3}', "json", CheckOutcome.WRONG),
        ('{"error": 0.5, "of": 3}', '{"error": 0.5, "of": 4}', "json", CheckOutcome.WRONG),
        ('{"error": 0.5, "is": "a"}', '{"error": 0.5, "is": "b"}', "json", CheckOutcome.WRONG),
        ("<p>found-5e9998c1</p>", "<p>found-6e9991c1</p>", "html", CheckOutcome.WRONG),
        ("<p>found-50000e01</p>", "<p>found-5000e002</p>", "html", CheckOutcome.WRONG),
        ('{"program": "50000e01"}', '{"program": "5000e002"}', "json", CheckOutcome.WRONG),
        ('{"run": "1234567e-12"}', '{"run": "12345670e-13"}', "json", CheckOutcome.WITHIN),
        ('{"run": "1234567e-12-ab"}', '{"run": "12345670e-13-ab"}', "json", CheckOutcome.WRONG),
        ('{"error": 1.5e+9999}', '{"error": 2.5e+9999}', "json", CheckOutcome.WRONG),
        (
            "<path d='M1.5,2.25L3.123456789,4'>",
            "<path d='M1.5,2.25L3.123456788,4'>",
            "html",
            CheckOutcome.WITHIN,
        ),
        ("scale(x, 0.123456789012)", "scale(x, 0.123456789013)", "py", CheckOutcome.WRONG),
    ],
)
def test_texts_with_figures(tmp_path: Path, made: str, told: str, suffix: str, outcome: CheckOutcome) -> None:
    a, b = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    a.write_text(made)
    b.write_text(told)
    assert difference(a, b)[0] is outcome


def test_other_files_are_equal_or_say_where_they_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "b.py").write_text("one\ntow\n")
    assert difference(tmp_path / "a.py", tmp_path / "a.py") == (CheckOutcome.EXACT, "")
    outcome, message = difference(tmp_path / "a.py", tmp_path / "b.py")
    assert outcome is CheckOutcome.WRONG and re.match("line 2: .*'two'.*'tow'", message)
    (tmp_path / "b.py").write_text("one\n")
    assert re.match("line 2: .*two.*nothing", difference(tmp_path / "a.py", tmp_path / "b.py")[1])
