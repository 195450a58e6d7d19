"""The known ways table: every strategy forward and backward, with verdicts; the same every time."""

import json
from functools import cache
from itertools import islice

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program import json_form
from overlayccl_core.program.library import read_library
from overlayccl_core.program.simplify import simplify
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.known_ways import Row, known_way_rows
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from tests.capabilities import library_of
from tests.known_cases import REASONS, SMALL, case


@cache
def _rows(name: str, capabilities: Capabilities | None = None, budget: int | None = None) -> list[Row]:
    return [
        row
        for problem in catalog.directions(case(name))
        for row in known_way_rows(problem, capabilities, budget)
    ]


@pytest.mark.parametrize("name", list(SMALL))
def test_rows_fit_the_table(name: str) -> None:
    rows = _rows(name)
    assert {tuple(row) for row in map(sorted, rows)} == {tuple(sorted(c.name for c in KNOWN_WAYS.columns))}
    frame = pl.DataFrame(rows, infer_schema_length=None)
    assert frame.group_by("case", "direction", "strategy").len()["len"].max() == 1


@pytest.mark.parametrize("name", ["tp_mlp", "dist_ce"])  # proven over atoms, and by values
def test_rows_are_the_same_every_time(name: str) -> None:
    [problem, *_] = catalog.directions(case(name))
    assert list(islice(known_way_rows(problem, None, None), 3)) == _rows(name)[:3]


@pytest.mark.parametrize("name", list(SMALL))
def test_every_direction_has_one_developer_and_all_that_is_applicable_is_proven(name: str) -> None:
    for direction in {row["direction"] for row in _rows(name)}:
        rows = [row for row in _rows(name) if row["direction"] == direction]
        assert [row["role"] for row in rows].count("developer") == 1
        bundled = read_library(catalog.library_source(name)).listed.hand_bundled
        assert [row["role"] for row in rows].count("hand_bundled") == bool(bundled)
        for row in rows:
            if row["status"] == "program":
                assert (row["legality"], row["equivalence"], row["reason"]) == ("pass", "pass", "ok")
            else:
                assert row["status"] == "not_applicable" and row["message"] in REASONS


@pytest.mark.parametrize("name", list(SMALL))
def test_a_row_holds_the_program_that_its_recipe_replays(name: str) -> None:
    directions = {p.direction.value: p for p in catalog.directions(case(name))}
    for row in _rows(name):
        if row["status"] == "program":
            stored = json_form.loads(row["program_json"])
            recipe = Recipe.from_json(json.loads(row["recipe"]))
            again = replay(recipe, directions[row["direction"]])
            assert stored.digest == row["program"] == again.digest
            assert stored.value_digest == row["value_digest"]
            assert len(stored.calls) == row["collectives"]


WITHOUT_EXCHANGE = library_of(("all_reduce", "all_gather", "reduce_scatter"))


def _developer(name: str, direction: str, capabilities: Capabilities | None = None) -> Row:
    (row,) = (r for r in _rows(name, capabilities) if (r["direction"], r["role"]) == (direction, "developer"))
    return row


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_developer_of_an_exchange_calls_all_to_all_where_there_is_one_and_gathers_elsewhere(
    direction: str,
) -> None:
    assert _developer("uniform_a2a", direction)["strategy"] == "native"
    assert _developer("uniform_a2a", direction, library_of(["all_to_all"]))["strategy"] == "native"
    assert _developer("uniform_a2a", direction, WITHOUT_EXCHANGE)["strategy"] == "gather_slice"


def test_a_developer_that_the_library_does_not_reach_is_a_known_way_as_any() -> None:
    role = {r["strategy"]: r["role"] for r in _rows("uniform_a2a") if r["direction"] == "forward"}
    assert (role["native"], role["gather_slice"]) == ("developer", "other")
    rows = [r for r in _rows("uniform_a2a", WITHOUT_EXCHANGE) if r["direction"] == "forward"]
    role = {r["strategy"]: r["role"] for r in rows}
    assert (role["native"], role["gather_slice"]) == ("other", "developer")


def test_where_the_library_can_call_none_of_them_the_last_stands_with_what_is_wrong() -> None:
    row = _developer("uniform_a2a", "forward", library_of(["all_reduce"]))
    assert (row["strategy"], row["reason"]) == ("gather_slice", "unsupported")


def test_a_backward_that_equals_no_problem_has_the_simplified_transpose_as_its_developer() -> None:
    row = _developer("tp_mlp", "backward")
    assert (row["strategy"], row["collectives"]) == ("simplified_transpose_of_developer", 0)


def test_no_baseline_of_a_backward_is_a_transpose_with_calls_that_people_would_leave_out() -> None:
    for name in SMALL:
        for problem in catalog.directions(case(name)):
            program = replay(
                Recipe.from_json(json.loads(_developer(name, problem.direction)["recipe"])), problem
            )
            assert simplify(program) is program


def test_what_the_library_cannot_do_is_listed_with_the_reason_and_not_proven() -> None:
    found = _rows("uniform_a2a", WITHOUT_EXCHANGE)
    rows = {row["strategy"]: row for row in found if row["direction"] == "forward"}
    assert rows["native"]["reason"] == "unsupported"
    assert rows["native"]["equivalence"] is None
    assert rows["gather_reduce_scatter"]["reason"] == "ok"


def test_what_does_not_fit_in_memory_is_listed_with_its_peak() -> None:
    rows = {row["strategy"]: row for row in _rows("tp_mlp", None, 2000) if row["direction"] == "forward"}
    copies = rows["all_to_all_of_copies"]
    assert (copies["reason"], copies["legality"]) == ("memory", "fail") and copies["peak_bytes"] > 2000
    assert rows["developer"]["legality"] == "pass"
