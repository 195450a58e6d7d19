"""ring_kv: what its known ways call, and which orders are legal."""

from dataclasses import replace

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Gate
from overlayccl_core.program.kinds import Kind, NotApplicable, Rejected
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.problem import Segment
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import case
from tests.small_problems import strategy

ENTRY = {"heads": 3, "sequence": 8, "head_dim": 5}


def traced(name: str) -> Program:
    at = case("ring_kv", ENTRY)
    return trace_source(catalog.library_source("ring_kv"), name, catalog.build(at))


@pytest.mark.parametrize(
    ("name", "kind", "calls"),
    [
        ("per_slot", Kind.ALL_GATHER, 2),
        ("per_head", Kind.ALL_GATHER, 6),
        ("joined", Kind.ALL_GATHER, 1),
        ("permute_ring", Kind.COLLECTIVE_PERMUTE, 3),
        ("all_to_all_of_copies", Kind.ALL_TO_ALL, 1),
    ],
)
def test_the_same_bytes_in_one_or_many_calls(name: str, kind: Kind, calls: int) -> None:
    program = traced(name)
    assert [x.kind for x in program.collectives] == [kind] * calls
    assert sum(map(wire_bytes, program.collectives)) == 3 * 2 * 3 * 2 * 5 * 4  # 3 others' pieces


@pytest.mark.parametrize(("name", "most"), [("per_slot", 1), ("per_head", 5), ("permute_ring", 0)])
def test_gathers_are_in_flight_together_and_a_ring_has_one_step_at_a_time(name: str, most: int) -> None:
    assert max(s.in_flight for s in lower(traced(name)) if s.action is Action.START) == most


@pytest.mark.parametrize(("name", "calls"), [("per_slot", 2), ("per_head", 6), ("joined", 1)])
def test_the_backward_sums_and_hands_out(name: str, calls: int) -> None:
    problem = catalog.backward(case("ring_kv", ENTRY))
    assert problem is not None
    program = replay(Recipe(base=TransposeOf(recipe=Recipe(base=name))), problem)
    assert [x.kind for x in program.collectives] == [Kind.REDUCE_SCATTER] * calls


def test_values_may_come_before_keys_but_both_must_come() -> None:
    problem = catalog.build(case("ring_kv", ENTRY))
    body = """
for slot in reversed(range(p.slots)):
    io.write("full", slot, all_gather(io.read("shard", slot), 1))
"""
    assert legality.check(trace_source(strategy(body, "all_gather"), "tried", problem)).passed
    keys_only = 'io.write("full", 0, all_gather(io.read("shard", 0), 1))'
    with pytest.raises(Rejected, match=r"full\[1\] is never"):
        trace_source(strategy(keys_only, "all_gather"), "tried", problem)


def test_a_step_that_gives_the_values_after_attention_has_read_the_keys_is_refused() -> None:
    """The Problem's two slots are given together; one whose values need the keys first admits no joint gather."""
    problem = catalog.build(case("ring_kv", ENTRY))
    in_turn = replace(
        problem,
        segments=(
            Segment(name=("keys",), gives=(("shard", 0),)),
            Segment(name=("values",), needs=(("full", 0),), gives=(("shard", 1),)),
            Segment(name=("attention",), needs=(("full", 1),)),
        ),
    )
    source = catalog.library_source("ring_kv")
    refused = legality.check(trace_source(source, "joined", in_turn))
    assert (refused.gate, refused.reason) == (Gate.LEGALITY, Reason.ORDER)
    assert "segment values" in refused.message and "full[0]" in refused.message
    assert legality.check(trace_source(source, "joined", problem)).passed


def test_a_ring_that_nobody_could_prove_in_time_says_so() -> None:
    at = case("ring_kv", {"heads": 32, "sequence": 160, "head_dim": 1}, ranks=160)
    with pytest.raises(NotApplicable, match="too many ranks"):
        trace_source(catalog.library_source("ring_kv"), "permute_ring", catalog.build(at))
