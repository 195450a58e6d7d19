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
        ({"count": [1, 3]}, CheckOutcome.WRONG, "column count, row 1"),
        ({"name": ["a", "c"]}, CheckOutcome.WRONG, "column name, row 1"),
        ({"more": [1, 2]}, CheckOutcome.WRONG, "of 4 .*2 of 5"),
    ],
)
def test_tables(tmp_path: Path, changed: dict[str, Any], outcome: CheckOutcome, named: str) -> None:
    found, message = difference(*tables(tmp_path, changed))
    assert found is outcome
    assert re.search(named, message)


WITHIN = [
    ('{"error": 0.123456789012, "of": 3}', '{"error": 0.123456789013, "of": 3}', "json"),
    ("<p>1.5e-07 in 2 steps</p>", "<p>1.50000001e-07 in 2 steps</p>", "html"),
    ('{"run": "1234567e-12"}', '{"run": "12345670e-13"}', "json"),
    ("<path d='M1.5,2.25L3.123456789,4'>", "<path d='M1.5,2.25L3.123456788,4'>", "html"),
]
WRONG = [
    ('{"error": 0.1234, "of": 3}', '{"error": 0.1235, "of": 3}', "json"),
    ('{"error": 0.5, "of": 3}', '{"error": 0.5, "of": 4}', "json"),
    ('{"error": 0.5, "is": "a"}', '{"error": 0.5, "is": "b"}', "json"),
    ("<p>found-5e9998c1</p>", "<p>found-6e9991c1</p>", "html"),
    ('{"program": "50000e01"}', '{"program": "5000e002"}', "json"),
    ('{"run": "1234567e-12-ab"}', '{"run": "12345670e-13-ab"}', "json"),
    ('{"error": 1.5e+9999}', '{"error": 2.5e+9999}', "json"),
    ("scale(x, 0.123456789012)", "scale(x, 0.123456789013)", "py"),
]


@pytest.mark.parametrize(
    ("texts", "outcome"),
    [*((one, CheckOutcome.WITHIN) for one in WITHIN), *((one, CheckOutcome.WRONG) for one in WRONG)],
)
def test_texts_with_figures(tmp_path: Path, texts: tuple[str, str, str], outcome: CheckOutcome) -> None:
    *sides, suffix = texts
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file, text in zip(files, sides, strict=True):
        file.write_text(text)
    assert difference(*files)[0] is outcome


def test_other_files_are_equal_or_say_where_they_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "b.py").write_text("one\ntow\n")
    assert difference(tmp_path / "a.py", tmp_path / "a.py") == (CheckOutcome.EXACT, "")
    outcome, message = difference(tmp_path / "a.py", tmp_path / "b.py")
    assert outcome is CheckOutcome.WRONG and re.match("line 2: .*'two'.*'tow'", message)
    (tmp_path / "b.py").write_text("one\n")
    assert re.match("line 2: .*two.*nothing", difference(tmp_path / "a.py", tmp_path / "b.py")[1])
