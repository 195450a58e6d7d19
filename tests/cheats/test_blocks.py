"""Sums of a parallel block that only a model which adds them up would forgive must be rejected."""

from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import judge
from tests.known_cases import case

SOURCE = Path(__file__).with_name("blocks.py").read_text()


def problem() -> Problem:
    return catalog.build(case("layer_block_ar"))


def assert_wrong(name: str) -> None:
    assert judge(SOURCE, name, problem()).reason is Reason.WRONG_VALUE


def test_a_part_left_out() -> None:
    """Cheat: the MLP is in no sum, or in that of its own rank only. Caught: by value. Honest: twice the bytes."""
    for name in ("leaves_a_part_out", "adds_a_part_behind_the_sum"):
        assert_wrong(name)
    assert judge(SOURCE, "adds_the_sums", problem()).passed


def test_a_part_counted_twice() -> None:
    """Cheat: the MLP twice in the sum. Caught: by value. Honest: twice a half of it."""
    assert_wrong("counts_a_part_twice")
    assert judge(SOURCE, "counts_a_part_twice_and_halves_it", problem()).passed


def test_the_parts_of_two_blocks() -> None:
    """Cheat: attention of one microbatch with the MLP of another. Caught: inputs are independent for every port.
    Honest: each with its own, out of the same buffer."""
    assert_wrong("takes_the_mlp_of_another_microbatch")
    assert judge(SOURCE, "adds_by_block", problem()).passed
