"""Strategies that trust a stage to hold zeros, or that answer before they are asked, must be rejected."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge

SOURCE = Path(__file__).with_name("stages.py").read_text()


def stages(schedule: str = "gpipe") -> Problem:
    entry = {"microbatches": 3, "shape": [1, 2, 4], "schedule": schedule}
    return catalog.build(catalog.case("pp_send_recv", entry, ranks=4, ranks_per_node=4))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_honest_exchanges_pass(schedule: str) -> None:
    for function in ("reference", "shares_a_buffer"):
        assert judge(SOURCE, function, stages(schedule)).passed


def test_a_sum_of_the_pair_without_a_mask() -> None:
    """Cheat: who receives adds what it happens to hold. Caught: inputs are arbitrary where they are not valid."""
    by = (Check.INVALID_INPUTS,)
    assert_stopped(SOURCE, "sums_pairs_unmasked", stages(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)


def test_a_mask_by_multiplication() -> None:
    """Cheat: 0 times what is not valid, which may be NaN. Caught: a value times 0
    is no zero, and the run in its own dtypes puts NaN there."""
    by = (Check.GAIN, Check.NUMERICS)
    assert_stopped(SOURCE, "masks_by_multiplication", stages(), Gate.EQUIVALENCE, Reason.GAIN, *by)


def test_two_ports_in_one_buffer_each_trusting_the_other_to_be_zero() -> None:
    """Cheat: adds an activation to a gradient, as if each were zero where the other is valid. Caught: it is not."""
    by = (Check.INVALID_INPUTS,)
    assert_stopped(SOURCE, "shares_a_buffer_unmasked", stages(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)


def test_a_gradient_that_travels_with_its_own_activation() -> None:
    """Cheat: one exchange for both passes of a microbatch. Caught: the second stage needs the activation first."""
    verdict = assert_stopped(
        SOURCE, "answers_before_it_is_asked", stages(), Gate.LEGALITY, Reason.ORDER, Check.ORDER
    )
    assert "read ga[0]: segment second[0] needs output b[0]" in verdict.message


def test_the_gradient_of_another_microbatch() -> None:
    """Cheat: hands back a gradient that is there already. Caught: inputs are independent for every port."""
    by = (Check.INDEPENDENT_PORTS,)
    function = "hands_back_what_it_had_before"
    assert_stopped(SOURCE, function, stages(), Gate.EQUIVALENCE, Reason.WRONG_VALUE, *by)
