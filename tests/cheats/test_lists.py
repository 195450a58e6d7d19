"""Values that one call sums must each be what it would be by a call of its own."""

from pathlib import Path

import pytest

from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program.problem import Problem
from tests.capabilities import library_of, tried
from tests.cheats.judge import assert_stopped, judge
from tests.small_problems import exchange

SOURCE = Path(__file__).with_name("lists.py").read_text()


def problem() -> Problem:
    names = ("a", "b", "c")
    return exchange(4, dict.fromkeys(names, (6,)), {f"{name}_sum": (6,) for name in names})


@pytest.mark.parametrize("honest", ["in_two_calls_the_other_way_round", "parts_by_one_call"])
def test_honest_lists_pass(honest: str) -> None:
    assert judge(SOURCE, honest, problem()).passed


@pytest.mark.parametrize("cheat", ["hands_them_out_in_another_order", "sums_one_twice"])
def test_a_value_of_the_call_in_the_place_of_another(cheat: str) -> None:
    """Cheat: the results of one call change places, or one is handed out twice: shapes are the same, and so are
    sums of ones. Caught: by value alone; inputs are independent for every port."""
    assert_stopped(SOURCE, cheat, problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, Check.INDEPENDENT_PORTS)


@pytest.mark.parametrize("cheat", ["leaves_one_out", "sums_one_in_smaller_groups", "counts_on_its_own_call"])
def test_a_value_that_the_call_does_not_sum_once_over_all(cheat: str) -> None:
    """Cheat: one value is not in the list, is summed over half of the ranks, or is summed twice. Caught: by value,
    and by the gain of ones."""
    verdict = judge(SOURCE, cheat, problem())
    assert (verdict.gate, verdict.reason) == (Gate.EQUIVALENCE, Reason.WRONG_VALUE), verdict


def test_a_maximum_in_a_list() -> None:
    """Cheat: the largest of what ranks hold, where a sum is asked for. Caught: it is not linear."""
    verdict = judge(SOURCE, "takes_the_largest", problem())
    assert (verdict.gate, verdict.reason) == (Gate.LEGALITY, Reason.NOT_LINEAR), verdict


def test_a_library_that_takes_no_lists() -> None:
    """Cheat: a call that was never tried, of a kind that was. Caught: it is another operation of the table, which
    counts the bytes of all values."""
    plain = library_of(["all_reduce"])
    refused = judge(SOURCE, "parts_by_one_call", problem(), capabilities=plain)
    assert refused.reason is Reason.UNSUPPORTED and "all_reduce_coalesced of 72 bytes" in refused.message
    limit = tried("all_reduce_coalesced", payload_bytes=72, supported=False)
    small = Capabilities([tried("all_reduce_coalesced"), limit])
    assert judge(SOURCE, "parts_by_one_call", problem(), capabilities=small).reason is Reason.UNSUPPORTED
    takes_them = library_of(["all_reduce_coalesced"])
    assert judge(SOURCE, "parts_by_one_call", problem(), capabilities=takes_them).passed
