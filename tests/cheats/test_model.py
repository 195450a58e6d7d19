"""Strategies that ignore the model's order, or that some values differ, must be rejected."""

from pathlib import Path

import pytest

from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program import arithmetics, language
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Problem
from tests.cheats.judge import assert_stopped, judge
from tests.small_problems import exchange, layers

MODEL = Path(__file__).with_name("model.py").read_text()
MEANS = Path(__file__).with_name("means.py").read_text()


def mean_of_two() -> Problem:
    return exchange(2, {"x": (8,)}, {"y": (8,)})


def test_bundling_across_a_true_dependency() -> None:
    """Cheat: sums all layers at once, before the model has made them. Caught: the walk through the segments."""
    verdict = assert_stopped(
        MODEL, "bundles_layers", layers(4, 2, 3, (2, 2)), Gate.LEGALITY, Reason.ORDER, Check.ORDER
    )
    assert "needs output total[0, 0]" in verdict.message


def test_all_microbatches_taken_for_one() -> None:
    """Cheat: sums one microbatch and hands it to all. Caught: inputs are independent for every port."""
    assert_stopped(
        MODEL,
        "every_microbatch_is_the_first",
        layers(4, 3, 2, (2, 2)),
        Gate.EQUIVALENCE,
        Reason.WRONG_VALUE,
        Check.INDEPENDENT_PORTS,
    )


def test_a_mean_without_communication() -> None:
    """Cheat: takes gradients for replicated, as parameters are. Caught: inputs differ from rank to rank."""
    assert_stopped(
        MEANS,
        "is_the_identity",
        mean_of_two(),
        Gate.EQUIVALENCE,
        Reason.WRONG_VALUE,
        Check.INDEPENDENT_RANKS,
    )


def test_weights_that_are_a_half_modulo_the_prime() -> None:
    """Cheat: 0.75 and 0.25, made to be 1/2 as residues and 1 as a gain. Caught: denominators of 2^33."""
    assert_stopped(
        MEANS,
        "weighs_three_quarters_to_one",
        mean_of_two(),
        Gate.EQUIVALENCE,
        Reason.DENOMINATOR,
        Check.DENOMINATOR,
        Check.NUMERICS,
    )


class _Int32(str):
    """An integer type, as if casts to it were allowed."""

    value = "int32"
    bytes = 4


def test_a_detour_through_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheat: 0.3 becomes 0, and a cast is the identity in exact arithmetic. Caught: casts are float to float."""
    verdict = judge(MEANS, "rounds_to_integers", mean_of_two())
    assert verdict.reason is Reason.NOT_IN_LANGUAGE
    assert "dtype must be one of" in verdict.message

    monkeypatch.setattr(language, "dtype_of", lambda name: _Int32(name) if name == "int32" else DType(name))
    monkeypatch.setitem(arithmetics.NUMPY_DTYPES, _Int32("int32"), "int32")  # type: ignore[misc]
    assert_stopped(
        MEANS, "rounds_to_integers", mean_of_two(), Gate.EQUIVALENCE, Reason.INACCURATE, Check.NUMERICS
    )
