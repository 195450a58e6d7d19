"""Gathers of keys and values that some attention would forgive must be rejected."""

from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge
from tests.known_cases import case

SOURCE = Path(__file__).with_name("sequences.py").read_text()


def problem(heads: int = 3) -> Problem:
    return catalog.build(case("ring_kv", {"heads": heads, "sequence": 8, "head_dim": 5}))


def test_ones_own_piece_first() -> None:
    """Cheat: keys and values alike turned so that each rank begins with its own piece, as they come in a ring;
    attention without a mask does not see it. Caught: by value on the other ranks, and as replicas that differ.
    Honest: turned there and back."""
    by = (Check.VALUES, Check.NUMERICS, Check.REPLICAS)
    assert_stopped(SOURCE, "begins_with_its_own_piece", problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)
    assert judge(SOURCE, "turns_there_and_back", problem()).passed


def test_a_chain_without_a_way_back() -> None:
    """Cheat: pieces are handed on to the last rank and never come back: right there, zeros before it. Caught: by
    value and gain, on every rank. Honest: a second chain the other way."""
    by = (Check.VALUES, Check.GAIN, Check.NUMERICS, Check.REPLICAS)
    assert_stopped(
        SOURCE, "adds_up_along_an_open_chain", problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by
    )
    assert judge(SOURCE, "adds_up_along_a_chain_and_back", problem()).passed


def test_heads_that_are_taken_for_positions() -> None:
    """Cheat: no transposition behind the gather, which is right for one head. Caught: the proof is of the very
    shape. Honest: the same with one head."""
    by = (Check.VALUES, Check.NUMERICS)
    assert_stopped(SOURCE, "counts_on_one_head", problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)
    assert judge(SOURCE, "counts_on_one_head", problem(heads=1)).passed
