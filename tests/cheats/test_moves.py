"""Strategies that move data by luck, by wrong means or beyond the machine's means must be rejected."""

from dataclasses import replace
from pathlib import Path

from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates.verdict import Check, Gate, Reason
from overlayccl_core.program.problem import Problem
from tests.capabilities import tried
from tests.cheats.judge import assert_stopped
from tests.small_problems import exchange

SOURCE = Path(__file__).with_name("moves.py").read_text()


def handover(ranks: int = 4) -> Problem:
    """x means something on the first half of the ranks, y on the second."""
    problem = exchange(ranks, {"x": (8,)}, {"y": (8,)})
    half = ranks // 2
    return replace(
        problem,
        inputs={p: replace(s, valid=(s.size,) * half + (0,) * half) for p, s in problem.inputs.items()},
        outputs={p: replace(s, valid=(0,) * half + (s.size,) * half) for p, s in problem.outputs.items()},
        _giver={},
    )


def test_a_sum_that_trusts_the_others_to_hold_zeros() -> None:
    """Cheat: adds the pair without a mask. Caught: inputs are arbitrary where they are not valid."""
    assert_stopped(
        SOURCE,
        "sums_the_pair_unmasked",
        handover(),
        Gate.EQUIVALENCE,
        Reason.WRONG_VALUE,
        Check.INVALID_INPUTS,
    )


def test_a_mask_by_multiplication() -> None:
    """Cheat: 0 times what is not valid, which may be NaN. Caught: a value times 0
    is no zero, and the run in its own dtypes puts NaN there."""
    assert_stopped(
        SOURCE,
        "masks_by_multiplication",
        handover(),
        Gate.EQUIVALENCE,
        Reason.GAIN,
        *(Check.GAIN, Check.NUMERICS),
    )


def test_a_maximum_as_a_move() -> None:
    """Cheat: max with zeros moves what is not negative, as residues never are. Caught: not linear."""
    assert_stopped(
        SOURCE,
        "takes_the_maximum_of_masked",
        handover(),
        Gate.LEGALITY,
        Reason.NOT_LINEAR,
        Check.LINEAR,
        Check.NUMERICS,
    )


def test_more_memory_than_there_is() -> None:
    """Cheat: wins by holding 4096 copies of everything. Caught: exact peak memory against the budget."""
    assert_stopped(
        SOURCE,
        "gathers_everything_many_times",
        handover(),
        Gate.LEGALITY,
        Reason.MEMORY,
        Check.MEMORY,
        memory_budget_bytes=64 * 1024,
    )


def test_a_call_that_the_library_does_not_take() -> None:
    """Cheat: uses a collective that aborts on this machine. Caught: the capabilities table."""
    row = tried("collective_permute", supported=False, evidence="aborts")
    assert_stopped(
        SOURCE,
        "calls_what_is_not_there",
        handover(),
        Gate.LEGALITY,
        Reason.UNSUPPORTED,
        Check.CAPABILITIES,
        capabilities=Capabilities([row]),
    )
