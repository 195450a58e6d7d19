"""What the known ways are: collectives, order and bytes as their descriptions say."""

from itertools import pairwise

import pytest

from benchmarks.examples import example
from overlayccl_core import catalog
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.program import BOUNDARY, Boundary, Issue, Program, Read
from overlayccl_core.program.tracing import trace_source
from tests.known_cases import case


def _trace(problem: str, strategy: str, **at: object) -> Program:
    return trace_source(catalog.library_source(problem), strategy, catalog.build(case(problem, **at)))  # type: ignore[arg-type]


def _kinds(program: Program) -> list[Kind]:
    return [x.kind for x in program.collectives]


def _in_flight(program: Program) -> int:
    """The most collectives that are outstanding when another starts."""
    return max(step.in_flight for step in lower(program) if step.action is Action.START)


def test_the_tp_mlp_developer_sums_one_after_another_with_a_graph_for_each_microbatch() -> None:
    program = _trace("tp_mlp", "developer")
    assert _kinds(program) == [Kind.ALL_REDUCE] * 6
    assert program.events.count(BOUNDARY) == 3
    assert isinstance(program.events[-1], Boundary)
    assert _in_flight(program) == 0
    assert [e.port[1:] for e in program.events if isinstance(e, Read)] == [
        (m, layer) for m in range(3) for layer in range(2)
    ]


def test_single_graph_has_the_same_sums_without_boundaries_and_those_of_a_layer_in_flight_together() -> None:
    program = _trace("tp_mlp", "single_graph")
    assert _kinds(program) == [Kind.ALL_REDUCE] * 6
    assert BOUNDARY not in program.events
    assert _in_flight(program) == 2


def test_merging_over_microbatches_leaves_one_sum_for_each_layer() -> None:
    program = _trace("tp_mlp", "merged_over_microbatches")
    assert [x.size for x in program.collectives] == [3 * 35] * 2


def test_bf16_on_the_wire_halves_the_bytes() -> None:
    whole, half = _trace("tp_mlp", "merged_over_microbatches"), _trace("tp_mlp", "bf16_on_the_wire")
    assert sum(map(wire_bytes, half.collectives)) * 2 == sum(map(wire_bytes, whole.collectives))


def test_the_two_exchanges_of_partial_sums_add_up_locally() -> None:
    assert _kinds(_trace("tp_mlp", "all_to_all_sum")) == [Kind.ALL_TO_ALL, Kind.ALL_GATHER] * 2
    copies = _trace("tp_mlp", "all_to_all_of_copies")
    assert _kinds(copies) == [Kind.ALL_TO_ALL] * 2
    assert copies.collectives[0].size == 4 * 3 * 35


def test_the_entry_site_runs_the_layers_in_reverse() -> None:
    at = case("tp_mlp", {"microbatches": 1, "layers": 3, "shape": [1, 2, 2], "site": "entry"})
    program = trace_source(catalog.library_source("tp_mlp"), "developer", catalog.build(at))
    assert [e.port[2] for e in program.events if isinstance(e, Read)] == [2, 1, 0]


@pytest.mark.parametrize("problem", ["tp_mlp", "grad_ar"])
def test_hierarchical_sums_use_the_node_first_and_only_shares_cross_nodes(problem: str) -> None:
    program = _trace(problem, "hierarchical", ranks=8, ranks_per_node=4)
    scatter, across, gather = program.collectives[:3]
    assert [x.kind for x in (scatter, across, gather)] == [
        Kind.REDUCE_SCATTER,
        Kind.ALL_REDUCE,
        Kind.ALL_GATHER,
    ]
    assert scatter.groups.members == ((0, 1, 2, 3), (4, 5, 6, 7)) == gather.groups.members
    assert across.groups.members == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert across.size * 4 == scatter.operands[0].size


def test_the_two_step_exchange_first_stays_in_the_node() -> None:
    within, across = _trace("uniform_a2a", "two_step_hierarchical", ranks=8, ranks_per_node=4).collectives
    assert within.groups.members == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert across.groups.members == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_the_ring_of_permutes_rotates_by_every_distance() -> None:
    program = _trace("uniform_a2a", "permute_ring")
    assert _kinds(program) == [Kind.COLLECTIVE_PERMUTE] * 3
    assert [x.sources[0] for x in program.collectives] == [3, 2, 1]
    assert _in_flight(program) == 2


def test_the_exchange_by_a_gather_and_a_scatter_holds_everything_reordered() -> None:
    program = _trace("uniform_a2a", "gather_reduce_scatter")
    assert _kinds(program) == [Kind.ALL_GATHER, Kind.REDUCE_SCATTER]
    assert peak_bytes(program) > 4 * program.collectives[1].bytes


def test_back_to_back_reduces_are_in_flight_together_and_the_developers_are_not() -> None:
    assert _in_flight(_trace("grad_ar", "one_by_one")) == 0
    assert _in_flight(_trace("grad_ar", "reduce_back_to_back")) == 3


@pytest.mark.parametrize("limit", [32, 64])
def test_buckets_are_filled_greedily_up_to_their_limit(limit: int) -> None:
    at = example("grad_ar", dtype="float32")
    program = trace_source(catalog.library_source("grad_ar"), f"buckets_{limit}_mib", catalog.build(at))
    merged = [len(x.operands[0].operands) for x in program.collectives if x.operands[0].operands]
    sizes = [x.bytes for x in program.collectives]
    assert sum(sizes) == 331_368_448 * 4
    assert all(
        size <= limit * 2**20
        for x, size in zip(program.collectives, sizes, strict=True)
        if x.operands[0].operands
    )
    assert max(merged) > 1
    ends = pairwise(sizes)
    first_of = {x: _first_tensor_bytes(x) for x in program.collectives}
    for (bucket, _), following in zip(ends, program.collectives[1:], strict=True):
        assert bucket + first_of[following] > limit * 2**20


def _first_tensor_bytes(x: object) -> int:
    operand = x.operands[0]  # type: ignore[attr-defined]
    return int((operand.operands[0] if operand.operands else operand).bytes)


def test_buckets_of_overlapped_gradients_are_reduced_while_the_backward_pass_goes_on() -> None:
    at = case("grad_ar", {"sizes": [7_000_000, 7_000_000, 7_000_000], "overlap": True})
    program = trace_source(catalog.library_source("grad_ar"), "ddp_25_mib", catalog.build(at))
    kinds = [type(e) for e in program.events[:4]]
    assert [e.port[1] for e in program.events if isinstance(e, Read)] == [2, 1, 0]
    assert kinds == [Read, Issue, Read, Issue] or kinds[:3] == [Read, Issue, Read]
