"""The known ways of dist_ce: which is the developer where, what each calls, where one has no meaning."""

from collections import Counter
from functools import cache
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.deployments.capabilities import operation_name
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.library import Role
from overlayccl_core.stages import known_ways
from overlayccl_core.stages.known_ways import KnownWay, Row, known_ways_of
from tests.capabilities import library_of
from tests.known_cases import case

RANGE = {"tokens": 6, "vocabulary": 40, "range": 40}


@cache
def rows(*operations: str, only: str = "", **entry: Any) -> dict[str, Row]:
    """strategy -> row, on a library with these operations (none: all), of all that are no derived ways or of one
    strategy beside the developer."""
    can = library_of(operations) if operations else None
    problems = catalog.directions(case("dist_ce", RANGE | entry))

    def wanted(one: KnownWay) -> bool:
        if not only:
            return one.role is not Role.DERIVED
        return one.role is Role.DEVELOPER or one.name == only

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_ways, "known_ways_of", lambda of: [s for s in known_ways_of(of) if wanted(s)])
        return {
            row["strategy"]: row
            for problem in problems
            for row in known_ways.known_way_rows(problem, can, None)
        }


def test_the_developer_takes_the_maximum_where_the_library_can_and_gathers_elsewhere() -> None:
    with_maximum = rows("all_reduce", "all_reduce_max", "all_gather", only="three_all_reduce")
    assert with_maximum["three_all_reduce"]["role"] == "developer"
    without = rows("all_reduce", "all_gather")
    assert without["gather_logits"]["role"] == "developer"
    assert without["three_all_reduce"]["reason"] == without["max_then_stacked"]["reason"] == "unsupported"
    assert without["no_max_two"]["equivalence"] == "pass"


@pytest.mark.parametrize(
    ("strategy", "calls"),
    [
        ("three_all_reduce", {"all_reduce_max": 1, "all_reduce": 2}),
        ("max_then_stacked", {"all_reduce_max": 1, "all_reduce": 1}),
        ("gather_logits", {"all_gather": 1}),
        ("no_max_two", {"all_reduce": 2}),
        ("softmax_minus_one_hot", {}),
        ("divided_by_the_sum", {}),
    ],
)
def test_what_each_calls(strategy: str, calls: dict[str, int]) -> None:
    row = rows()[strategy]
    assert (row["legality"], row["equivalence"], row["reason"]) == ("pass", "pass", "ok")
    assert Counter(map(operation_name, loads(row["program_json"]).calls)) == calls


def test_with_all_reduces_one_value_as_large_as_the_logits_is_held() -> None:
    """exp takes the place of the shifted logits, as the target was looked up in them before."""
    for name in ("three_all_reduce", "max_then_stacked"):
        row = rows(only=name, tokens=64, vocabulary=4 * 100)[name]
        assert 64 * 100 * 4 <= row["peak_bytes"] < 1.1 * 64 * 100 * 4


@pytest.mark.parametrize("fields", [{"range": None}, {"range": 88}, {"range": 80, "vocabulary": 4 * 100}])
def test_without_a_maximum_there_must_be_a_range_that_exp_of_all_words_keeps(fields: dict[str, Any]) -> None:
    row = rows(only="no_max_two", **fields)["no_max_two"]
    assert row["status"] == "not_applicable" and "`range`" in row["message"]
