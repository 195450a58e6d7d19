"""A proposer in a folder of one's own: what it sketches goes into the stage's tables and comes back from them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.digest import closure
from overlayccl_core.program.problem import Problem
from overlayccl_core.rewrites.recipe import SOURCE, Recipe, replay, sources
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import read
from tests.known_cases import case
from tests.stages.asked import Ran
from tests.stages.flow import ROOT

PLUGINS = ROOT / "tests/plugins"
FOUR, TWELVE = [7, 64, 1, 33], list(range(3, 15))  # tensors: a proxy keeps eight
MERGE = ["merge", "all_gather:world:1", "all"]


@dataclass
class Searched:
    """The tables of a search with the proposer `scripted`, read from their files."""

    problem: Problem
    sketches: pl.DataFrame
    candidates: pl.DataFrame

    def sketched(self, stage: str) -> list[tuple[str, str]]:
        """(function, outcome) of every sketch that was tried at a stage."""
        rows = self.sketches.filter((pl.col("origin") == "sketch") & (pl.col("stage") == stage))
        return list(rows.select("function", "outcome").iter_rows())

    def from_sources(self) -> list[dict[str, Any]]:
        """Candidates whose recipes begin at a source."""
        return [
            row | {"recipe": recipe}
            for row in self.candidates.iter_rows(named=True)
            if str((recipe := Recipe.from_json(json.loads(row["recipe"]))).base).startswith(SOURCE)
        ]


@pytest.fixture
def searched(run_search: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Searched]:
    """The stage at one Case of so many tensors; changes: of the search's file."""
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))

    def run(sizes: list[int], **changes: object) -> Searched:
        of = case("grad_ar", {"sizes": sizes})
        ran = run_search(of_cases=(of,), like="offline", proposer="scripted", **changes)
        return Searched(
            catalog.build(of), *(read(t, ran.folder / f"{t.name}.parquet") for t in (SKETCHES, CANDIDATES))
        )

    return run


def test_sketches_become_rows_and_those_that_are_right_candidates_that_rules_polish(
    searched: Callable[..., Searched],
) -> None:
    run = searched(FOUR)
    assert run.sketched("full") == [
        ("by_parity", "program"),
        ("by_parity", "rejected"),
        ("unscaled", "not_proven"),
        ("once_more", "duplicate"),
        ("unscaled", "program"),
    ]
    by_outcome = {row["outcome"]: row for row in run.sketches.iter_rows(named=True) if row["function"]}
    assert by_outcome["rejected"]["message"].startswith("line 3: does not parse")
    assert by_outcome["program"]["rationale"] == f"mends: {by_outcome['not_proven']['message']}"
    assert run.sketches.filter(pl.col("rationale") == "one call for both")["step"].to_list() == [
        json.dumps(MERGE)
    ]
    rows = run.from_sources()
    assert {row["origin"] for row in rows} == {"sketch", "rule"}
    assert all(row["candidate"].startswith("found-") for row in rows)
    last = {row["recipe"].steps[-1] for row in rows if row["recipe"].steps}
    assert last - {tuple(MERGE)}  # the rules went on where the script ended


@pytest.mark.parametrize(
    ("sizes", "nodes"), [(FOUR, 500), (TWELVE, 1)], ids=["at the Case itself", "through a proxy"]
)
def test_what_begins_at_a_source_replays_at_the_case_from_the_tables_alone(
    searched: Callable[..., Searched], sizes: list[int], nodes: int
) -> None:
    run = searched(sizes, proxy={"nodes": nodes, "ranks": 64})
    assert len(run.sketched("proxy")) == (5 if nodes == 1 else 0)
    assert ("by_parity", "program") in run.sketched("full")
    source_of = sources(run.sketches["source"].drop_nulls())
    rows = run.from_sources()
    assert rows
    for row in rows:
        assert replay(row["recipe"], run.problem, source_of).digest == row["program"]
    proven = [row for row in rows if row["program_json"]]
    assert {"pass"} <= {row["equivalence"] for row in proven}
    assert {row["reason"] for row in proven if row["equivalence"] != "pass"} <= {"ranks_differ"}


def test_a_proposer_gets_the_fields_of_its_own(searched: Callable[..., Searched]) -> None:
    run = searched(FOUR, sketches=1)
    assert run.sketched("full") == [("by_parity", "program")]


def test_the_proposer_of_a_search_is_in_its_code_and_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))
    offline, scripted = (
        ROOT / "overlayccl_core/search/proposers/offline.py",
        loader.path("search/proposers", "scripted"),
    )
    assert not {offline, scripted} & set(closure("search"))
    assert {offline, scripted} & set(closure("search", "search/proposers/offline.py")) == {offline}
    with_scripted = closure("search", "search/proposers/scripted.py")
    assert {offline, scripted} <= set(with_scripted)  # it builds on the rules' proposer
