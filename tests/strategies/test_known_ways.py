"""What the known ways are: collectives, order, memory and bytes as their descriptions say."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.examples import example
from overlayccl_core import catalog
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.program import BOUNDARY, Issue, Program, Read, Write
from overlayccl_core.program.tracing import trace_source
from tests.known_cases import case

M, L = 3, 4
FSDP = {"microbatches": M, "layers": L, "shape": [8, 6]}
FULL = 8 * 6 * 4  # bytes of a layer
RING = {"heads": 3, "sequence": 8, "head_dim": 5}


def traced(problem: str, way: str, entry: Mapping[str, Any] | None = None, **at: Any) -> Program:
    """A known way at a small Case, or at this entry."""
    return trace_source(catalog.library_source(problem), way, catalog.build(case(problem, entry, **at)))


def in_flight(program: Program) -> int:
    """The most collectives that are outstanding when another starts."""
    return max(step.in_flight for step in lower(program) if step.action is Action.START)


def reads(program: Program) -> list[tuple[Any, ...]]:
    """The indices of what is read, in order."""
    return [e.port[1:] for e in program.events if isinstance(e, Read)]


@pytest.mark.parametrize(
    ("problem", "entry", "way", "calls", "outstanding", "graphs"),
    [
        ("tp_mlp", None, "developer", {"all_reduce": 6}, 0, 3),
        ("tp_mlp", None, "single_graph", {"all_reduce": 6}, 2, 0),
        ("tp_mlp", None, "merged_over_microbatches", {"all_reduce": 2}, 0, 0),
        ("tp_mlp", None, "all_to_all_sum", {"all_to_all": 2, "all_gather": 2}, 0, 0),
        ("tp_mlp", None, "all_to_all_of_copies", {"all_to_all": 2}, 0, 0),
        ("layer_block_ar", None, "developer", {"all_reduce": 6}, 0, 3),
        ("layer_block_ar", None, "two_sums", {"all_reduce": 12}, 1, 3),
        ("layer_block_ar", None, "single_graph", {"all_reduce": 6}, 2, 0),
        ("layer_block_ar", None, "merged_over_microbatches", {"all_reduce": 2}, 0, 0),
        ("fsdp_prefetch", FSDP, "prefetched", {"all_gather": M * L}, 1, M),
        ("fsdp_prefetch", FSDP, "one_by_one", {"all_gather": M * L}, 0, M),
        ("fsdp_prefetch", FSDP, "gathered_once", {"all_gather": L}, 3, 0),
        ("fsdp_prefetch", FSDP, "in_lockstep", {"all_gather": L}, 1, 0),
        ("fsdp_prefetch", FSDP, "merged_under_512_mib", {"all_gather": 1}, 0, 0),
        ("ring_kv", RING, "per_slot", {"all_gather": 2}, 1, 0),
        ("ring_kv", RING, "per_head", {"all_gather": 6}, 5, 0),
        ("ring_kv", RING, "joined", {"all_gather": 1}, 0, 0),
        ("ring_kv", RING, "permute_ring", {"collective_permute": 3}, 0, 0),
        ("ring_kv", RING, "all_to_all_of_copies", {"all_to_all": 1}, 0, 0),
        ("uniform_a2a", None, "permute_ring", {"collective_permute": 3}, 2, 0),
        ("uniform_a2a", None, "gather_reduce_scatter", {"all_gather": 1, "reduce_scatter": 1}, 0, 0),
        ("grad_ar", None, "one_by_one", {"all_reduce": 4}, 0, 0),
        ("grad_ar", None, "reduce_back_to_back", {"all_reduce": 4}, 3, 0),
    ],
)
def test_what_a_known_way_calls(
    problem: str,
    entry: dict[str, Any] | None,
    way: str,
    calls: dict[str, int],
    outstanding: int,
    graphs: int,
) -> None:
    program = traced(problem, way, entry)
    assert Counter(x.kind.value for x in program.collectives) == calls
    assert in_flight(program) == outstanding
    assert program.events.count(BOUNDARY) == graphs


@pytest.mark.parametrize(
    ("problem", "of_a_microbatch"), [("tp_mlp", [2, 1, 0]), ("layer_block_ar", [2, 2, 1, 1, 0, 0])]
)
def test_sums_are_taken_in_the_order_of_the_layers_and_at_the_entry_site_in_reverse(
    problem: str, of_a_microbatch: list[int]
) -> None:
    shape = {"microbatches": 2, "layers": 3, "shape": [1, 2, 2]}
    for site, order in (("exit", of_a_microbatch[::-1]), ("entry", of_a_microbatch)):
        ports = reads(traced(problem, "developer", {**shape, "site": site}))
        assert [port[:2] for port in ports] == [(m, layer) for m in range(2) for layer in order]


# ------------------------------------------------------------------------------------------------- gathers
def test_ways_of_gathering_keys_and_values_move_the_same_bytes() -> None:
    ways = ("per_slot", "per_head", "joined", "permute_ring", "all_to_all_of_copies")
    moved = {sum(map(wire_bytes, traced("ring_kv", way, RING).collectives)) for way in ways}
    assert moved == {3 * 2 * 3 * 2 * 5 * 4}  # 3 others' pieces


def test_a_ring_that_nobody_could_prove_in_time_says_so() -> None:
    with pytest.raises(NotApplicable, match="too many ranks"):
        traced("ring_kv", "permute_ring", {"heads": 32, "sequence": 160, "head_dim": 1}, ranks=160)


@pytest.mark.parametrize(
    ("way", "layers_held"),
    [
        ("prefetched", 2),
        ("one_by_one", 1),
        ("gathered_once", L),
        ("in_lockstep", 2),
        ("merged_under_512_mib", 2 * L),  # a rank's shards lie together in the buffer: put in order behind it
    ],
)
@pytest.mark.parametrize("site", ["gather", "regather"])
def test_calls_are_traded_for_memory(site: str, way: str, layers_held: int) -> None:
    assert peak_bytes(traced("fsdp_prefetch", way, {**FSDP, "site": site})) == layers_held * FULL


def test_columns_are_put_in_order_behind_their_gather() -> None:
    square = {**FSDP, "shape": [8, 8]}
    assert peak_bytes(traced("fsdp_prefetch", "one_by_one", {**square, "shards": "columns"})) == 2 * 8 * 8 * 4
    assert peak_bytes(traced("fsdp_prefetch", "one_by_one", square)) == 8 * 8 * 4


def test_the_developers_next_gather_is_in_flight_while_a_layer_runs() -> None:
    events = [e for e in traced("fsdp_prefetch", "prefetched", FSDP).events if not isinstance(e, Read)]
    assert [type(e) for e in events[: 2 * L + 1]] == [Issue, *[Issue, Write] * (L - 1), Write, type(BOUNDARY)]


@pytest.mark.parametrize(("limit", "layers"), [(256, [2, 2, 1]), (512, [4, 1])])
def test_groups_of_layers_are_filled_up_to_their_limit(limit: int, layers: list[int]) -> None:
    large = {"microbatches": 1, "layers": 5, "shape": [8192, 4096]}  # 128 MiB each
    program = traced("fsdp_prefetch", f"merged_under_{limit}_mib", large)
    assert [x.bytes // 2**27 for x in program.collectives] == layers


# ----------------------------------------------------------------------------------------- gradient buckets
@pytest.mark.parametrize("limit", [32, 64])
def test_buckets_are_filled_greedily_up_to_their_limit(limit: int) -> None:
    at = example("grad_ar", dtype="float32")
    program = trace_source(catalog.library_source("grad_ar"), f"buckets_{limit}_mib", catalog.build(at))
    buckets = program.collectives
    merged = [x for x in buckets if x.operands[0].operands]
    assert sum(x.bytes for x in buckets) == 331_368_448 * 4
    assert merged and all(x.bytes <= limit * 2**20 for x in merged)
    for bucket, following in pairwise(buckets):
        assert bucket.bytes + _first_tensor_bytes(following) > limit * 2**20


def _first_tensor_bytes(x: Node) -> int:
    (operand,) = x.operands
    return (operand.operands[0] if operand.operands else operand).bytes


def test_buckets_of_overlapped_gradients_are_reduced_while_the_backward_pass_goes_on() -> None:
    program = traced("grad_ar", "ddp_25_mib", {"sizes": [7_000_000] * 3, "overlap": True})
    assert reads(program) == [(2,), (1,), (0,)]
    assert [type(e) for e in program.events[:3]] == [Read, Issue, Read]
