"""Attention that is right but for a mask, a part, a weight, a head or a trace must be rejected."""

from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import ALL_CHECKS, Checks, ProofCheck, Reason, Verdict
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.tracing import trace_source

SOURCES = {
    Direction.FORWARD: Path(__file__).with_name("attentions.py").read_text(),
    Direction.BACKWARD: Path(__file__).with_name("attention_gradients.py").read_text(),
}
FRIENDLY = ALL_CHECKS - {ProofCheck.HOSTILE}
SMALL: dict[str, Any] = {"heads": 4, "sequence": 12, "head_dim": 5}
LARGER = {"heads": 8, "sequence": 64, "head_dim": 16}
HONEST = "reference attends_to_the_keys_from_the_last_rank_on attends_head_by_head"
HONEST_BACKWARD = "gradient_reference goes_back_part_by_part"
CHEATS = (
    "sees_the_next_position sees_not_its_own_position sees_everything"
    " sees_the_next_position_on_the_last_rank_only leaves_the_last_part_out takes_a_part_twice"
    " has_a_part_at_the_next_place adds_parts_without_their_weights combines_with_the_lse_of_another"
    " saves_the_lse_of_its_own_part saves_no_lse exchanges_two_heads_of_the_keys"
    " exchanges_two_values_of_the_last_head leaves_rank_0_out_for_the_last_head doubles_the_scores"
    " scales_the_scores scales_the_result adds_a_trace_of_the_next_head adds_a_trace_to_the_scores"
    " adds_a_trace_of_what_is_behind"
)
CHEATS_BACKWARD = (
    "sees_the_next_position_backward keeps_its_own_part_of_the_gradients"
    " leaves_the_last_rank_s_gradients_out takes_the_cotangent_for_the_result takes_no_result"
    " takes_the_lse_of_its_own_part exchanges_the_gradients_of_keys_and_values hands_gradients_to_the_next_rank"
    " scales_the_gradient_of_the_keys scales_the_gradient_of_the_values"
    " adds_a_trace_of_the_next_head_s_gradient adds_a_trace_of_the_position_before"
)
TRACES = (
    "adds_a_trace_of_the_next_head adds_a_trace_of_the_next_head_s_gradient adds_a_trace_of_what_is_behind"
    " adds_a_trace_of_the_position_before"
)
HOSTILE_ONLY = {*TRACES.split()}
# More than the least error that a loosened bound would let pass, and less than the largest.
INACCURATE = "rounds_the_queries rounds_the_result rounds_the_lse"
INACCURATE_BACKWARD = (
    "rounds_the_queries_backward rounds_the_gradient_of_the_keys rounds_the_gradient_of_the_values"
)
JOINED = (
    "adds_zero_times_the_next_head adds_the_next_head_s_lse_less_itself combines_with_the_next_head_unseen"
)
JOINED_BACKWARD = "adds_zero_times_the_next_head_s_gradient"
REFUSED = {
    "takes_exponentials_without_a_maximum": "is exp of data",
    "takes_the_largest_of_the_ranks": "takes a maximum",
}


def judged(
    function: str, direction: Direction, entry: dict[str, Any], checks: Checks = ALL_CHECKS
) -> Verdict:
    case = catalog.case("attention", entry, ranks=4, ranks_per_node=4)
    problem = catalog.in_direction(case, direction)
    program = trace_source(SOURCES[direction], function, problem)
    return prove(program, catalog.reference_program(problem), checks)


def both(forward: str, backward: str) -> list[tuple[str, Direction]]:
    return [
        *((function, Direction.FORWARD) for function in forward.split()),
        *((function, Direction.BACKWARD) for function in backward.split()),
    ]


@pytest.mark.parametrize("entry", [SMALL, LARGER])
@pytest.mark.parametrize(("function", "direction"), both(CHEATS, CHEATS_BACKWARD))
def test_a_cheat_is_stopped(function: str, direction: Direction, entry: dict[str, Any]) -> None:
    verdict = judged(function, direction, entry)
    assert verdict.reason is Reason.WRONG_VALUE, verdict
    assert "of head" in verdict.message and "position" in verdict.message
    if function in HOSTILE_ONLY:
        assert judged(function, direction, entry, FRIENDLY).passed


@pytest.mark.parametrize("entry", [SMALL, LARGER])
@pytest.mark.parametrize(("function", "direction"), both(INACCURATE, INACCURATE_BACKWARD))
def test_few_digits_are_not_enough(function: str, direction: Direction, entry: dict[str, Any]) -> None:
    """Right in float64, and in 32 bits off by less than 16 bits may be."""
    assert judged(function, direction, entry).reason is Reason.INACCURATE
    assert judged(function, direction, entry, ALL_CHECKS - {ProofCheck.NUMERICS}).passed


@pytest.mark.parametrize(("function", "direction"), both(JOINED, JOINED_BACKWARD))
def test_an_infinite_value_of_a_head_reaches_no_other(function: str, direction: Direction) -> None:
    """No finite data shows it: it is read off the Program."""
    verdict = judged(function, direction, SMALL)
    assert verdict.reason is Reason.PARTS_JOINED and "of 4 is made of other rows' data" in verdict.message
    assert judged(function, direction, SMALL, FRIENDLY).passed


@pytest.mark.parametrize(("function", "direction"), both(HONEST, HONEST_BACKWARD))
def test_an_honest_way_passes(function: str, direction: Direction) -> None:
    for entry in (SMALL, LARGER):
        verdict = judged(function, direction, entry)
        assert verdict.passed, verdict.message


@pytest.mark.parametrize("function", REFUSED)
def test_other_operations_than_those_of_attention_are_refused(function: str) -> None:
    problem = catalog.build(catalog.case("attention", SMALL, ranks=4, ranks_per_node=4))
    program = trace_source(SOURCES[Direction.FORWARD], function, problem)
    for verdict in (legality.check(program), prove(program, catalog.reference_program(problem))):
        assert verdict.reason is Reason.NOT_LINEAR and REFUSED[function] in verdict.message
        assert "no other than attend, attend_backward, combine" in verdict.message


def test_every_function_has_its_row() -> None:
    forward = " ".join((HONEST, CHEATS, INACCURATE, JOINED, *REFUSED)).split()
    backward = " ".join((HONEST_BACKWARD, CHEATS_BACKWARD, INACCURATE_BACKWARD, JOINED_BACKWARD)).split()
    assert {*forward} == {*functions_of(SOURCES[Direction.FORWARD])}
    assert {*backward} == {*functions_of(SOURCES[Direction.BACKWARD])}
