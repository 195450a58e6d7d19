"""The tables of a search: rows, names, lineage, what is listed and what is not searched."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.costmodel.features import Column, Term
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program import json_form
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.search import Deployed, searched
from overlayccl_core.stages.seed import seed_rows
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.search.costs import OFFLINE, Cost, favouring, plain
from tests.seed_cases import case

SMALL = {
    "tp_mlp": {"microbatches": 2, "layers": 2, "shape": [1, 2, 6]},
    "uniform_a2a": {"chunk": 3, "width": 5},
    "grad_ar": {"sizes": [7, 64, 1, 33]},
}


@dataclass
class Searched:
    """What the stage gave for all directions of a Case."""

    seeds: list[dict[str, Any]] = field(default_factory=list)
    sketches: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class AnyColumn(dict[Column, float]):
    """Coefficients of whatever column is asked for."""

    def __init__(self, cost: Cost) -> None:
        super().__init__({Column(name="", term=term, unit="us"): 0.0 for term in Term})
        self.cost = cost

    def __contains__(self, column: object) -> bool:
        return True

    def __missing__(self, column: Column) -> float:
        return self.cost(column)


def theta_of(cost: Cost) -> Theta:
    """A Theta that has a value for every column."""
    theta = Theta((), 0.9, 1.1, "synthetic")
    theta.__dict__["values"] = AnyColumn(cost)
    return theta


def search_of(
    name: str, cost: Cost = plain, keep: Callable[[dict[str, Any]], bool] = lambda row: True
) -> Searched:
    """A search from the seeds that `keep` lets through."""
    found = Searched()
    for problem in catalog.directions(case(name, SMALL[name])):
        seeds = [row for row in seed_rows(problem, None, None) if keep(row)]
        here = Deployed(theta=theta_of(cost), capabilities=None, memory_budget_bytes=None)
        found.seeds += seeds
        for table, rows in searched(problem, seeds, OFFLINE, here, lambda: 0.0, found.said.append):
            getattr(found, table).extend(rows)
    return found


@pytest.fixture(scope="module", params=list(SMALL))
def run(request: pytest.FixtureRequest) -> Searched:
    """A search of each Problem."""
    return search_of(request.param)


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
        assert (row["equivalence"], row["numerics"] is None) == ("pass", False)
    assert len(kept) >= 4 + sum(row["elite"] for row in kept) or len(kept) == len(run.candidates)


def case_of(run: Searched) -> Any:
    (name,) = {row["case"].split("/")[0] for row in run.candidates}
    return case(name, SMALL[name])


def test_seeds_keep_their_names_and_finds_have_their_own(run: Searched) -> None:
    seeds = {(row["direction"], row["strategy"]): row for row in run.seeds if row["status"] == "program"}
    for row in run.candidates:
        if row["source"] == "rule" and row["candidate"].startswith("found-"):
            assert row["candidate"] == f"found-{row['value_digest'][:8]}"
            assert row["parent"] is not None
        else:
            assert seeds[row["direction"], row["candidate"]]["value_digest"] == row["value_digest"]
    assert [r["candidate"] for r in run.candidates if r["source"] == "developer"] == [
        r["strategy"] for r in run.seeds if r["role"] == "developer" and r["collectives"]
    ]


def test_an_identity_is_listed_and_not_searched() -> None:
    found = search_of("tp_mlp")
    assert {row["direction"] for row in found.candidates} == {"forward"}
    assert any("backward: nothing to search: the identity" in line for line in found.said)
    assert {row["direction"] for row in search_of("uniform_a2a").candidates} == {"forward", "backward"}


def test_it_says_why_it_ended_and_what_is_cheapest(run: Searched) -> None:
    assert all("ended: no new elite; cheapest: " in line for line in run.said if "nothing to" not in line)


@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("favoured", ["all_reduce", "all_to_all"])
def test_from_developer_alone_it_ends_within_two_percent_of_what_all_seeds_lead_to(
    name: str, favoured: str
) -> None:
    def cheapest(found: Searched) -> dict[str, float]:
        usable = [r for r in found.candidates if r["predicted_us"] and r["numerics"] not in (None, "lossy")]
        return {
            way: min(r["predicted_us"] for r in usable if r["direction"] == way)
            for way in {r["direction"] for r in usable}
        }

    alone = cheapest(search_of(name, favouring(favoured), lambda row: row["role"] == "developer"))
    every = cheapest(search_of(name, favouring(favoured)))
    assert alone.keys() == every.keys()
    for way, us in alone.items():
        assert us <= 1.02 * every[way]
