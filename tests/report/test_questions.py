"""The tables without us: the examples in polars and in SQL answer, and give the same figures."""

import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.report.fixture_tree import write_tree

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


# ------------------------------------------------------------------------------------------ rows made by hand
A, B = "one/n4-f32", "other/n4-f32"  # Cases of two Problems


def timed(case: str, program: str, launch: int, samples: list[float], **other: Any) -> dict[str, Any]:
    told = {"case": case, "direction": "forward", "status": "timed", "foreign_cpu_share": 0.0}
    return {**told, "program": program, "launch": launch, "samples_us": samples, **other}


def priced(case: str, strategy: str, program: str, us: float) -> dict[str, Any]:
    told = {"case": case, "direction": "forward", "strategy": strategy}
    return {**told, "program": program, "predicted_us": us}


SPLITS = [
    {
        "model": "m",
        "microbatches": 1,
        "arm": arm,
        "part": part,
        "deployed_speedup": speedup,
        "deployed_speedup_low": speedup - 0.1,
    }
    | {"deployed_speedup_high": speedup + 0.1}
    for arm, part, speedup in (
        ("deployed", "deployed", 1.0),
        ("developer", "beside", 2.0),
        ("best_known_way", "rival", 1.5),
    )
]
PROBES = [
    {"program": "p", "launch": 0, "foreign_cpu_share": 0.25, "samples_us": [3.0, 2.0, 3.0, 2.0]},
    {"program": "q", "launch": 0, "foreign_cpu_share": None, "samples_us": [5.0]},
]
BENCH = {
    "one": [
        timed(A, "x", 0, [10.0, 10.0, 10.0], foreign_cpu_share=0.5),
        timed(A, "y", 0, [20.0, 10.0, 20.0, 10.0]),
        timed(A, "x", 1, [12.0, 10.0]),
        timed(A, "z", 0, [], status="failed"),
    ],
    "other": [timed(B, "x", 0, [40.0, 40.0])],
}
PRICES = {
    "one": [  # x has three names
        priced(A, "first", "x", 11.0),
        priced(A, "second", "x", 11.0),
        priced(A, "third", "x", 11.0),
        priced(A, "fourth", "y", 30.0),
        priced(A, "fifth", "z", 1.0),
    ],
    "other": [priced(B, "first", "x", 60.0)],
}
WORTH = [("m", 1, "best_known_way", "rival", 1.5, 1.4, 1.6), ("m", 1, "developer", "beside", 2.0, 1.9, 2.1)]
RIGHTNESS = [  # |11/10 - 1|, |30/15 - 1|, |11/11 - 1|; |60/40 - 1|
    ("one", 2, 0.1, 1.0),
    ("other", 1, 0.5, 0.5),
]
CALM = [  # half of what even and odd rounds differ by: of x 0 and of y 0.5, 0.25 between them
    ("one", 0, 2, 0.5, 0.25),
    ("one", 1, 1, 0.0, 0.1),
    ("other", 0, 1, 0.0, 0.0),
    ("probes", 0, 1, 0.25, 0.25),
]


@pytest.fixture
def by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two Problems, in the folder that the queries name."""
    monkeypatch.chdir(tmp_path)
    tree = Path("results/local")
    for problem in BENCH:
        (tree / "problems" / problem).mkdir(parents=True)
        pl.DataFrame(BENCH[problem]).write_parquet(tree / "problems" / problem / "bench.parquet")
        pl.DataFrame(PRICES[problem]).write_parquet(tree / "problems" / problem / "prices.parquet")
    pl.DataFrame(SPLITS).write_parquet(tree / "splits.parquet")
    pl.DataFrame(PROBES).write_parquet(tree / "probes.parquet")
    return tree


def equal(mine: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], keys: int) -> None:
    assert [row[:keys] for row in mine] == [row[:keys] for row in theirs]
    assert [row[keys:] for row in mine] == [pytest.approx(row[keys:]) for row in theirs]


def test_polars_answers_what_follows_from_the_rows(by_hand: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    equal(script["worth"](by_hand).rows(), WORTH, 4)
    equal(script["rightness"](by_hand).rows(), RIGHTNESS, 2)
    equal(script["calm"](by_hand).rows(), CALM, 3)


def test_duckdb_answers_what_follows_from_the_rows(by_hand: Path) -> None:
    worth, rightness, calm = answers()
    equal(worth, WORTH, 4)
    equal(rightness, RIGHTNESS, 2)
    equal(calm, CALM, 3)


def answers() -> list[list[tuple[Any, ...]]]:
    """Of the queries, in the folder where the test is."""
    return [duckdb.sql(query).fetchall() for query in QUERIES.read_text().split(";") if query.strip()]


def test_both_say_the_same_of_a_run_of_two_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write_tree(tmp_path / "results/local", problems=("tp_mlp", "uniform_a2a"), data=False)
    monkeypatch.chdir(tmp_path)
    script = runpy.run_path(str(SCRIPT))
    worth, rightness, calm = answers()
    equal(worth, script["worth"](tree).rows(), 4)
    equal(rightness, script["rightness"](tree).rows(), 2)
    equal(calm, script["calm"](tree).rows(), 3)
    assert [row[0] for row in rightness] == ["tp_mlp", "uniform_a2a"]
    assert {row[0] for row in calm} == {"probes", "tp_mlp", "uniform_a2a"}
