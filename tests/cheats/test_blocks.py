"""Sums of a parallel block that only a model which adds them up would forgive must be rejected."""

from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge
from tests.seed_cases import case

SOURCE = Path(__file__).with_name("blocks.py").read_text()


def problem() -> Problem:
    return catalog.build(case("layer_block_ar"))


def test_one_sum_for_both() -> None:
    """Cheat: the sum of both parts as the first total, zeros as the second: half the bytes, the same residual
    stream. Caught: by value, every output counts for itself. Honest: zeros on the way."""
    by = (Check.VALUES, Check.GAIN, Check.NUMERICS)
    assert_stopped(
        SOURCE, "gives_the_sum_of_both_and_zeros", problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by
    )
    assert judge(SOURCE, "sums_each_with_zeros", problem()).passed


def test_attention_for_mlp() -> None:
    """Cheat: hands out the two totals the wrong way round, which a residual stream does not see. Caught: inputs are
    independent for every port. Honest: stacked the other way round, and taken out so."""
    assert_stopped(
        SOURCE,
        "takes_each_for_the_other",
        problem(),
        Gate.EQUIVALENCE,
        Reason.WRONG_VALUE,
        Check.INDEPENDENT_PORTS,
    )
    assert judge(SOURCE, "stacks_the_other_way_round", problem()).passed
