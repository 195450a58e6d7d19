"""Strategies that sum wrongly, or in a way that only exact arithmetic forgives, must be rejected."""

from pathlib import Path

import pytest

from overlayccl_core.gates.verdict import Check, Gate, Outcome, Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge
from tests.small_problems import exchange

SOURCE = Path(__file__).with_name("sums.py").read_text()


def problem(ranks: int = 4, width: int = 8) -> Problem:
    return exchange(ranks, {"x": (width,), "z": (width,)}, {"y": (width,)}, width=width)


def stopped(function: str, reason: Reason, *by: Check) -> None:
    assert_stopped(SOURCE, function, problem(), Gate.EQUIVALENCE, reason, *by)


def test_31_doublings() -> None:
    """Cheat: 2^31 is 1 modulo 2^31 - 1. Caught: the gain is 2^31 times too large."""
    by = (Check.GAIN, Check.RANGE, Check.DENOMINATOR, Check.NUMERICS)
    stopped("vanishes_modulo_the_prime", Reason.GAIN, *by)


def test_the_prime_times_a_stranger() -> None:
    """Cheat: adds (2^31 - 1) z, which no residue sees. Caught: the gain counts absolute coefficients."""
    by = (Check.GAIN, Check.RANGE, Check.DENOMINATOR, Check.NUMERICS)
    stopped("adds_the_prime_times_a_stranger", Reason.GAIN, *by)


@pytest.mark.parametrize("function", ["adds_nothing_of_a_stranger", "adds_nothing_of_a_stranger_on_one_rank"])
def test_a_stranger_times_0(function: str) -> None:
    """Cheat: adds 0 z, which is NaN where z is infinite. Caught: no coefficient is 0 but by a layout."""
    stopped(function, Reason.GAIN, Check.GAIN)


def test_a_stranger_that_cancels() -> None:
    """Cheat: adds z / 2 and takes it away, which is NaN where z is infinite. Caught: the gain."""
    stopped("adds_half_and_takes_half_away", Reason.GAIN, Check.GAIN)


def test_zeros_of_nothing_are_zeros() -> None:
    verdict = judge(SOURCE, "adds_nothing_of_a_stranger_to_nobody", problem())
    assert verdict.passed, verdict.message


def test_underflow() -> None:
    """Cheat: x 2^-200, sum, 2^200: right in exact arithmetic, 0 in float32. Caught: a value out of range."""
    by = (Check.RANGE, Check.DENOMINATOR, Check.NUMERICS)
    stopped("underflows_and_comes_back", Reason.OUT_OF_RANGE, *by)


def test_cancellation() -> None:
    """Cheat: (sum + 2^19 z) - 2^19 z loses 19 bits. Caught: the gain is a million times the reference's."""
    stopped("loses_bits_by_cancellation", Reason.GAIN, Check.GAIN, Check.NUMERICS)


def test_overflow_in_16_bits() -> None:
    """Cheat: a harmless factor 2^15, but in float16, where it overflows. Caught: the range of float16, and the run
    in its own dtypes."""
    stopped("overflows_in_16_bits", Reason.OUT_OF_RANGE, Check.RANGE, Check.NUMERICS)


def test_underflow_in_16_bits() -> None:
    """Cheat: 2^-16 in float16 keeps unit inputs and loses small ones. Caught: the range of float16."""
    stopped("underflows_in_16_bits", Reason.OUT_OF_RANGE, Check.RANGE)


def test_a_sum_over_the_node_only() -> None:
    """Cheat: half of the terms are missing. Caught: by value."""
    by = (Check.VALUES, Check.GAIN, Check.NUMERICS)
    stopped("sums_its_node_only", Reason.WRONG_VALUE, *by)


def test_lanes_in_another_order() -> None:
    """Cheat: the right elements, one place on; as many of each. Caught: by value, atoms do not hide it."""
    stopped("rolls_one_element", Reason.WRONG_VALUE, Check.VALUES, Check.NUMERICS)


def test_one_element_dropped() -> None:
    """Cheat: the last element of many is zero. Caught: by value; every element counts."""
    by = (Check.VALUES, Check.GAIN, Check.NUMERICS)
    stopped("drops_the_last_element", Reason.WRONG_VALUE, *by)


def test_wrong_on_one_rank_only() -> None:
    """Cheat: three ranks hold the sum, the fourth something else. Caught: by value; every rank counts."""
    by = (Check.VALUES, Check.GAIN, Check.NUMERICS)
    stopped("wrong_on_one_rank", Reason.WRONG_VALUE, *by)


def test_an_order_of_its_own_on_every_rank() -> None:
    """Cheat: right up to rounding, so replicas drift apart. Caught: y is replicated, its bits differ by rank."""
    replicated = exchange(4, {"x": (8,)}, {"y": (8,)}, equal=("y",))
    by = (Check.REPLICAS,)
    assert_stopped(SOURCE, "adds_from_its_own_on", replicated, Gate.EQUIVALENCE, Reason.RANKS_DIFFER, *by)


def test_n_times_my_own() -> None:
    """Cheat: takes all ranks to hold the same x. Caught: inputs are independent for every rank."""
    stopped("multiplies_its_own", Reason.WRONG_VALUE, Check.INDEPENDENT_RANKS)


@pytest.mark.parametrize(
    ("function", "tried", "deployed"),
    [("zeros_if_wide", problem(width=2), problem(width=4096)), ("nothing_if_many", problem(4), problem(16))],
)
def test_another_case_proves_nothing(function: str, tried: Problem, deployed: Problem) -> None:
    """Cheat: is right at the size where one might retrace it. Caught: the proof is of the very Program."""
    assert judge(SOURCE, function, tried).passed
    verdict = judge(SOURCE, function, deployed)
    assert (verdict.gate, verdict.outcome) == (Gate.EQUIVALENCE, Outcome.FAIL)
    assert verdict.reason is Reason.WRONG_VALUE
