"""The tables without us: the examples in polars and in SQL answer, and give the same figures."""

import runpy
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT, QUERIES = ROOT / "examples/questions.py", ROOT / "examples/questions.sql"


def test_the_script_answers_three_questions_without_the_package(whole: Path) -> None:
    program = (
        "import runpy, sys; sys.modules['overlayccl_core'] = None; "
        f"sys.argv = ['questions.py', {str(whole)!r}]; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    alone = [sys.executable, "-I", "-c", program]
    done = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert done.stdout.count("?\n") == 3


def test_duckdb_says_the_same(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "local").symlink_to(whole)
    monkeypatch.chdir(tmp_path)
    script = runpy.run_path(str(SCRIPT))
    queries = [query for query in QUERIES.read_text().split(";") if query.strip()]
    assert len(queries) == 3
    worth, rightness, calm = (duckdb.sql(query).fetchall() for query in queries)
    for mine, theirs in zip(worth, script["worth"](whole).rows(), strict=True):
        assert mine[:4] == theirs[:4] and mine[4:] == pytest.approx(theirs[4:])
    for mine, theirs in zip(rightness, script["rightness"](whole).rows(), strict=True):
        assert mine[:2] == theirs[:2] and mine[2:] == pytest.approx(theirs[2:])
    for mine, theirs in zip(calm, script["calm"](whole).rows(), strict=True):
        assert mine[:3] == theirs[:3] and mine[3:] == pytest.approx(theirs[3:])
