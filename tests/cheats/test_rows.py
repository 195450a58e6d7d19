"""Strategies that exchange other rows than the counts say must be rejected."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Check, Gate, Outcome, Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge

SOURCE = Path(__file__).with_name("rows.py").read_text()
RAGGED = [[1, 4, 2, 2], [3, 1, 5, 1], [2, 2, 2, 6], [1, 1, 3, 1]]
SYMMETRIC = [[1, 4, 2, 2], [4, 1, 5, 1], [2, 5, 2, 6], [2, 1, 6, 1]]
TO_THE_NEXT = [[0, 3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2], [3, 0, 0, 0]]


def rows(counts: list[list[int]]) -> Problem:
    return catalog.build(catalog.case("alltoallv", {"counts": counts, "width": 3}, ranks=4, ranks_per_node=4))


@pytest.mark.parametrize(
    ("function", "counts"),
    [("reference", RAGGED), ("counts_as_if_symmetric", SYMMETRIC), ("cuts_the_rows_behind", TO_THE_NEXT)],
)
def test_honest_exchanges_pass(function: str, counts: list[list[int]]) -> None:
    assert judge(SOURCE, function, rows(counts)).passed


def test_right_where_counts_are_symmetric_only() -> None:
    """Cheat: mixes up rows and columns of the counts. Caught: the proof is of the very matrix."""
    verdict = judge(SOURCE, "counts_as_if_symmetric", rows(RAGGED))
    assert (verdict.gate, verdict.outcome) == (Gate.EQUIVALENCE, Outcome.FAIL)
    assert verdict.reason is Reason.WRONG_VALUE


def test_rows_over_the_capacity_dropped() -> None:
    """Cheat: less to place, as a mixture of experts with a capacity has it. Caught: by value; every row counts."""
    by = (Check.VALUES, Check.GAIN, Check.NUMERICS)
    function = "drops_what_is_over_the_average"
    assert_stopped(SOURCE, function, rows(RAGGED), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)


def test_rows_behind_the_counts_taken_for_zeros() -> None:
    """Cheat: sends the whole buffer, with what lies behind the rows. Caught: it is arbitrary there."""
    by = (Check.INVALID_INPUTS,)
    function = "sends_the_rows_behind_too"
    assert_stopped(SOURCE, function, rows(TO_THE_NEXT), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)


def test_rows_cut_by_multiplication() -> None:
    """Cheat: 0 times what lies behind the rows, which may be NaN. Caught: a value times 0
    is no zero, and the run in its own dtypes."""
    by = (Check.GAIN, Check.NUMERICS)
    function = "cuts_by_multiplication"
    assert_stopped(SOURCE, function, rows(TO_THE_NEXT), Gate.EQUIVALENCE, Reason.GAIN, *by)
