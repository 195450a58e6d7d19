"""Gradients of sharded parameters that an optimizer may not notice must be rejected."""

from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge
from tests.known_cases import case

SOURCE = Path(__file__).with_name("gradients.py").read_text()
BY = (Check.VALUES, Check.GAIN, Check.NUMERICS)


def problem() -> Problem:
    backward = catalog.backward(case("fsdp_prefetch", {"microbatches": 3, "layers": 2, "shape": [8, 5]}))
    assert backward is not None
    return backward


def test_gradients_that_are_overwritten() -> None:
    """Cheat: a microbatch's gradient takes the place of the one before it: a smaller batch, which still
    trains. Caught: by value; every microbatch counts. Honest: added from the last one on."""
    assert_stopped(SOURCE, "keeps_the_last_microbatch", problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *BY)
    assert judge(SOURCE, "begins_with_the_last_microbatch", problem()).passed


def test_a_mean_that_nobody_asked_for() -> None:
    """Cheat: the mean over microbatches in the sum's place, to which Adam is blind. Caught: by value; a mean
    is a factor of the loss. Honest: one that is multiplied out again."""
    assert_stopped(SOURCE, "averages_over_microbatches", problem(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *BY)
    assert judge(SOURCE, "averages_and_multiplies", problem()).passed
