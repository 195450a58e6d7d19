"""fsdp_prefetch: what its known ways call, what they hold, and which orders are legal."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.program import BOUNDARY, Issue, Program, Read, Write
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import case
from tests.small_problems import strategy

M, L = 3, 4
ENTRY = {"microbatches": M, "layers": L, "shape": [8, 6]}
FULL = 8 * 6 * 4  # bytes


def traced(name: str, **change: object) -> Program:
    at = case("fsdp_prefetch", {**ENTRY, **change})
    return trace_source(catalog.library_source("fsdp_prefetch"), name, catalog.build(at))


@pytest.mark.parametrize(
    ("name", "gathers", "layers_held"),
    [
        ("prefetched", M * L, 2),
        ("one_by_one", M * L, 1),
        ("gathered_once", L, L),
        ("in_lockstep", L, 2),
        (
            "merged_under_512_mib",
            1,
            2 * L,
        ),  # a rank's shards lie together in the buffer: put in order behind it
    ],
)
@pytest.mark.parametrize("site", ["gather", "regather"])
def test_calls_are_traded_for_memory(site: str, name: str, gathers: int, layers_held: int) -> None:
    program = traced(name, site=site)
    assert [x.kind for x in program.collectives] == [Kind.ALL_GATHER] * gathers
    assert peak_bytes(program) == layers_held * FULL


def test_columns_are_put_in_order_behind_their_gather() -> None:
    large = traced("one_by_one", shape=[8, 8], shards="columns")
    assert peak_bytes(large) == 2 * 8 * 8 * 4
    assert peak_bytes(traced("one_by_one", shape=[8, 8])) == 8 * 8 * 4


def test_the_developers_next_gather_is_in_flight_while_a_layer_runs_with_a_graph_for_each_microbatch() -> (
    None
):
    events = [e for e in traced("prefetched").events if not isinstance(e, Read)]
    assert [type(e) for e in events[: 2 * L + 1]] == [Issue, *[Issue, Write] * (L - 1), Write, type(BOUNDARY)]
    assert events.count(BOUNDARY) == M
    starts = [s.in_flight for s in lower(traced("one_by_one")) if s.action is Action.START]
    assert max(starts) == 0


def test_groups_of_layers_are_filled_up_to_their_limit() -> None:
    large = {"microbatches": 1, "layers": 5, "shape": [8192, 4096]}  # 128 MiB each
    at = catalog.build(case("fsdp_prefetch", large))
    source = catalog.library_source("fsdp_prefetch")
    sizes = [x.bytes // 2**27 for x in trace_source(source, "merged_under_256_mib", at).collectives]
    assert sizes == [2, 2, 1]
    assert [x.bytes // 2**27 for x in trace_source(source, "merged_under_512_mib", at).collectives] == [4, 1]


def backward_of(name: str) -> Program:
    problem = catalog.backward(case("fsdp_prefetch", ENTRY))
    assert problem is not None
    return replay(Recipe(base=TransposeOf(recipe=Recipe(base=name))), problem)


def test_a_gather_for_every_microbatch_becomes_a_reduce_scatter_of_every_microbatchs_gradient() -> None:
    program = backward_of("prefetched")
    assert [x.kind for x in program.collectives] == [Kind.REDUCE_SCATTER] * M * L
    assert [e.port[1:] for e in program.events if isinstance(e, Read)] == [
        (m, layer) for m in range(M) for layer in reversed(range(L))
    ]


@pytest.mark.parametrize(("name", "calls"), [("gathered_once", L), ("merged_under_512_mib", 1)])
def test_what_is_gathered_once_is_summed_over_microbatches_before_one_reduce_scatter(
    name: str, calls: int
) -> None:
    program = backward_of(name)
    assert [x.kind for x in program.collectives] == [Kind.REDUCE_SCATTER] * calls
    assert all(Kind.SUM in {y.kind for y in _below(x)} for x in program.collectives)


def _below(x: object) -> list[object]:
    found, todo = [], [x]
    while todo:
        y = todo.pop()
        found.append(y)
        todo += y.operands  # type: ignore[attr-defined]
    return found


def test_nothing_orders_what_is_there_from_the_start_but_memory() -> None:
    """Parameters given from the last layer to the first: legal, since all shards exist, and all wait for the first
    block."""
    body = """
for layer in reversed(p.layer_order):
    full = all_gather(io.read("shard", layer), p.shard_axis)
    for m in range(p.microbatches):
        io.write("full", m, layer, full)
"""
    at = catalog.build(case("fsdp_prefetch", ENTRY))
    program = trace_source(strategy(body, "all_gather"), "tried", at)
    verdict = legality.check(program)
    assert verdict.outcome is Outcome.PASS and verdict["peak_bytes"] == L * FULL
    refused = legality.check(program, memory_budget_bytes=3 * FULL)
    assert refused.reason is Reason.MEMORY and "merge less" in refused.message
    assert legality.check(traced("in_lockstep"), memory_budget_bytes=3 * FULL).passed
