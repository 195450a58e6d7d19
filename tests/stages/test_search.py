"""The tables of a search: rows, names, lineage, what is listed and what is not searched."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.searches import Begin, Search
from overlayccl_core.costmodel.features import Feature, Term
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program import json_form
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.search.ending import Nothing
from overlayccl_core.search.loop import SearchStop
from overlayccl_core.search.proposer import Clock
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.stages.search import DeploymentFacts, searched
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.known_cases import case
from tests.search.costs import OFFLINE, Cost, favouring, plain

SMALL = {
    "tp_mlp": {"microbatches": 2, "layers": 2, "shape": [1, 2, 6]},
    "uniform_a2a": {"chunk": 3, "width": 5},
    "grad_ar": {"sizes": [7, 64, 1, 33]},
}


@dataclass
class Searched:
    """What the stage gave for all directions of a Case."""

    ways: list[dict[str, Any]] = field(default_factory=list)
    sketches: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    search_ends: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class AnyColumn(dict[Feature, float]):
    """Coefficients of whatever column is asked for."""

    def __init__(self, cost: Cost) -> None:
        super().__init__({Feature(name="", term=term, unit="us"): 0.0 for term in Term})
        self.cost = cost

    def __contains__(self, column: object) -> bool:
        return True

    def __missing__(self, column: Feature) -> float:
        return self.cost(column)


def theta_of(cost: Cost) -> Theta:
    """A Theta that has a value for every column."""
    theta = Theta((), 0.9, 1.1, "synthetic")
    theta.__dict__["values"] = AnyColumn(cost)
    return theta


def search_of(
    name: str,
    cost: Cost = plain,
    keep: Callable[[dict[str, Any]], bool] = lambda row: True,
    search: Search = OFFLINE,
    clock: Clock = lambda: 0.0,
    **fields: int,
) -> Searched:
    """A search from the known ways that `keep` lets through. fields: of the Case, others than SMALL has."""
    run = Searched()
    for problem in catalog.directions(case(name, SMALL[name] | fields)):
        ways = [row for row in known_way_rows(problem, None, None) if keep(row)]
        facts = DeploymentFacts(theta=theta_of(cost), capabilities=None, memory_budget_bytes=None)
        run.ways += ways
        for table, rows in searched(problem, ways, search, facts, clock, run.said.append):
            getattr(run, table).extend(rows)
    return run


plainly = cache(search_of)  # from all known ways, by the rules


@pytest.fixture(scope="module", params=list(SMALL))
def run(request: pytest.FixtureRequest) -> Searched:
    """A search of each Problem."""
    return plainly(request.param)


def test_rows_fit_their_tables(run: Searched, tmp_path: Path) -> None:
    assert write(SKETCHES, run.sketches, tmp_path / "s.parquet").height == len(run.sketches)
    frame = write(CANDIDATES, run.candidates, tmp_path / "c.parquet")
    assert frame.group_by("case", "direction", "candidate").len()["len"].max() == 1
    for _, rows in pl.DataFrame(run.sketches, infer_schema_length=None).group_by("case", "direction"):
        assert rows["number"].to_list() == list(range(rows.height))


def test_elites_and_what_is_proven_hold_a_program_that_their_recipe_replays(run: Searched) -> None:
    problems = {p.direction.value: p for p in catalog.directions(case_of(run))}
    kept = [row for row in run.candidates if row["program_json"]]
    assert kept == [row for row in run.candidates if row["elite"] or row["equivalence"]]
    for row in kept:
        program = replay(Recipe.from_json(json.loads(row["recipe"])), problems[row["direction"]])
        assert program.digest == row["program"] == json_form.loads(row["program_json"]).digest
        assert row["numerics"] is not None
        assert row["equivalence"] == "pass" or (row["elite"], row["reason"]) == (False, "ranks_differ")
    assert len(kept) >= 4 + sum(row["elite"] for row in kept) or len(kept) == len(run.candidates)


def case_of(run: Searched) -> Any:
    (name,) = {row["case"].split("/")[0] for row in run.candidates}
    return case(name, SMALL[name])


def test_known_ways_keep_their_names_and_finds_have_their_own(run: Searched) -> None:
    ways = {(row["direction"], row["strategy"]): row for row in run.ways if row["status"] == "program"}
    for row in run.candidates:
        if row["origin"] == "rule" and row["candidate"].startswith("found-"):
            assert row["candidate"] == f"found-{row['value_digest'][:8]}"
            assert row["parent"] is not None
        else:
            assert ways[row["direction"], row["candidate"]]["value_digest"] == row["value_digest"]
    assert [r["candidate"] for r in run.candidates if r["origin"] == "developer"] == [
        r["strategy"] for r in run.ways if r["role"] == "developer" and r["collectives"]
    ]


def test_an_identity_is_listed_and_not_searched() -> None:
    run = plainly("tp_mlp")
    assert {row["direction"] for row in run.candidates} == {"forward"}
    ends = {row["direction"]: row for row in run.search_ends}
    assert (ends["forward"]["why"], ends["backward"]["why"]) == ("no_new_elite", "no_exchange")
    assert "identity" in ends["backward"]["message"]
    assert {row["direction"] for row in plainly("uniform_a2a").candidates} == {"forward", "backward"}


def test_every_case_and_direction_has_one_end_with_the_counts_of_the_other_tables(
    run: Searched, tmp_path: Path
) -> None:
    ends = write(SEARCH_ENDS, run.search_ends, tmp_path / "e.parquet")
    directions = [problem.direction.value for problem in catalog.directions(case_of(run))]
    assert ends["direction"].to_list() == directions
    for end in ends.iter_rows(named=True):
        sketches, candidates = (
            [row for row in rows if row["direction"] == end["direction"]]
            for rows in (run.sketches, run.candidates)
        )
        families = {row["family"] for row in candidates if row["elite"]}
        counted = (len(sketches), len(candidates), len(families))
        assert (end["proposals"], end["programs"], end["families"]) == counted
        assert end["fingerprint"] == "synthetic"
    lines = [f"{end['case']} {end['direction']}: {end['message']}" for end in run.search_ends]
    assert lines == run.said  # people are told the same


def test_it_says_what_is_cheapest(run: Searched) -> None:
    searched = [row["message"] for row in run.search_ends if row["why"] != "no_exchange"]
    assert searched and all("; cheapest: " in message for message in searched)


@pytest.mark.parametrize(
    ("why", "changed", "clock"),
    [
        (SearchStop.ROUNDS, {"rounds": 1}, lambda: 0.0),
        (SearchStop.PROGRAMS, {"programs": 5}, lambda: 0.0),
        (SearchStop.SECONDS, {"seconds": 1.0}, count(0, 2).__next__),
    ],
)
def test_a_guard_that_cuts_a_search_is_named_with_its_mend(
    why: SearchStop, changed: dict[str, Any], clock: Clock
) -> None:
    end = search_of("tp_mlp", search=OFFLINE.changed(name="offline@3", **changed), clock=clock).search_ends[0]
    assert (end["why"], end["search"]) == (why.value, "offline@3")  # of the file below, at another seed
    parts = (f"raise `{why.value}`", "config/searches/offline.yaml)", "; cheapest: ")
    assert all(part in end["message"] for part in parts)
    assert end["proposals"] >= end["programs"] > 0


def test_it_may_begin_with_developer_alone() -> None:
    alone = search_of("tp_mlp", search=OFFLINE.changed(begin=Begin.DEVELOPER))
    assert {row["origin"] for row in alone.candidates} == {"developer", "rule"}
    assert "known" in {row["origin"] for row in plainly("tp_mlp").candidates}
    assert {row["direction"] for row in alone.candidates} == {"forward"}


def test_without_a_right_strategy_there_is_nothing_to_search_from() -> None:
    run = search_of("uniform_a2a", keep=lambda row: False)
    assert [row["why"] for row in run.search_ends] == ["no_base", "no_base"]
    assert not run.sketches and not run.candidates
    assert {(row["proposals"], row["programs"], row["families"]) for row in run.search_ends} == {(0, 0, 0)}
    assert all("no strategy of its" in row["message"] for row in run.search_ends)


def test_a_search_at_a_smaller_case_counts_its_proposals_and_names_it() -> None:
    def only_at_large(row: dict[str, Any]) -> bool:
        """Let all through; one cannot be replayed at the smaller Case."""
        if row["strategy"] == "merged_over_microbatches":
            row["recipe"] = json.dumps({"base": "not_there", "steps": []})
        return True

    smaller = OFFLINE.changed(proxy=OFFLINE.proxy.changed(nodes=1))
    run = search_of("tp_mlp", keep=only_at_large, search=smaller, microbatches=3)
    end = run.search_ends[0]
    assert {row["stage"] for row in run.sketches} == {"proxy", "full"}
    assert (end["why"], end["proposals"]) == ("no_new_elite", len(run.sketches))
    assert f" rounds at {case('tp_mlp', SMALL['tp_mlp']).id}, replayed; ended: " in end["message"]


def test_the_table_knows_every_way_to_end() -> None:
    (column,) = (c for c in SEARCH_ENDS.columns if c.name == "why")
    assert set(column.values) == {*SearchStop, *Nothing}


def test_an_end_does_not_tell_how_long_the_search_took() -> None:
    slower = search_of("uniform_a2a", clock=count(0, 1e-4).__next__)
    assert slower.search_ends == plainly("uniform_a2a").search_ends


@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("favoured", ["all_reduce", "all_to_all"])
def test_from_developer_alone_it_ends_within_two_percent_of_what_all_known_ways_lead_to(
    name: str, favoured: str
) -> None:
    def cheapest(run: Searched) -> dict[str, float]:
        usable = [r for r in run.candidates if r["predicted_us"] and r["numerics"] not in (None, "lossy")]
        return {
            way: min(r["predicted_us"] for r in usable if r["direction"] == way)
            for way in {r["direction"] for r in usable}
        }

    alone = cheapest(search_of(name, favouring(favoured), lambda row: row["role"] == "developer"))
    every = cheapest(search_of(name, favouring(favoured)))
    assert alone.keys() == every.keys()
    for way, us in alone.items():
        assert us <= 1.02 * every[way]
