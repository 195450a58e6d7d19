"""What the transposes of the known ways become when collectives of equal copies are taken out."""

from collections.abc import Mapping
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import topological
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program, Read
from overlayccl_core.program.transpose import transpose
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import case

M, L = 3, 4
ENTRIES: Mapping[str, Any] = {
    "ring_kv": {"heads": 3, "sequence": 8, "head_dim": 5},
    "fsdp_prefetch": {"microbatches": M, "layers": L, "shape": [8, 6]},
}


def backward(name: str, ranks_per_node: int = 2) -> Problem:
    found = catalog.backward(case(name, ENTRIES.get(name), ranks_per_node=ranks_per_node))
    assert found is not None
    return found


def simplified(problem: Problem, way: str) -> Program:
    return replay(Recipe(base=TransposeOf(recipe=Recipe(base=way))), problem)


SUMS = ("developer", "single_graph", "merged_over_microbatches", "reduce_scatter_all_gather")
LEFT: list[tuple[str, str, list[Kind]]] = [
    *(("tp_mlp", way, []) for way in (*SUMS, "all_to_all_sum", "all_to_all_of_copies")),
    *(("tp_mlp", way, []) for way in ("bf16_on_the_wire", "hierarchical")),
    *(("layer_block_ar", way, []) for way in (*SUMS, "two_sums")),
    ("uniform_a2a", "native", [Kind.ALL_TO_ALL]),
    ("uniform_a2a", "permute_ring", [Kind.COLLECTIVE_PERMUTE] * 3),
    ("uniform_a2a", "gather_slice", [Kind.REDUCE_SCATTER]),
    ("uniform_a2a", "gather_reduce_scatter", [Kind.ALL_GATHER]),
    ("uniform_a2a", "two_step_hierarchical", [Kind.ALL_TO_ALL] * 2),
    ("ring_kv", "per_slot", [Kind.REDUCE_SCATTER] * 2),
    ("ring_kv", "per_head", [Kind.REDUCE_SCATTER] * 6),
    ("ring_kv", "joined", [Kind.REDUCE_SCATTER]),
    ("fsdp_prefetch", "prefetched", [Kind.REDUCE_SCATTER] * M * L),
    ("fsdp_prefetch", "gathered_once", [Kind.REDUCE_SCATTER] * L),
    ("fsdp_prefetch", "merged_under_512_mib", [Kind.REDUCE_SCATTER]),
]


@pytest.mark.parametrize(("name", "way", "left"), LEFT)
def test_what_is_left_of_a_backward(name: str, way: str, left: list[Kind]) -> None:
    assert [x.kind for x in simplified(backward(name), way).collectives] == left


def test_the_exact_backwards_of_tp_mlp_are_one_program() -> None:
    problem = backward("tp_mlp", ranks_per_node=4)
    assert len({simplified(problem, way).digest for way in (*SUMS, "all_to_all_sum")}) == 1


def test_the_backward_of_a_gather_and_a_scatter_loses_only_the_scatter_of_copies() -> None:
    problem, base = backward("uniform_a2a"), Recipe(base="gather_reduce_scatter")
    mechanical = transpose(replay(base, catalog.build(problem.case)), problem)
    assert [x.kind for x in mechanical.collectives] == [Kind.ALL_GATHER, Kind.REDUCE_SCATTER]


def test_both_parts_of_a_block_have_the_gradient_of_the_total_as_it_comes() -> None:
    problem = backward("layer_block_ar")
    program = simplified(problem, "developer")
    assert len(problem.outputs) == 2 * len(problem.inputs)
    assert {x.kind for x in program.nodes} == {Kind.INPUT}
    assert all(program.outputs[port].port[1:] == port[1:3] for port in program.outputs)


def test_a_gradient_is_summed_as_it_comes_or_over_all_microbatches_first() -> None:
    problem = backward("fsdp_prefetch")
    read = [e.port[1:] for e in simplified(problem, "prefetched").events if isinstance(e, Read)]
    assert read == [(m, layer) for m in range(M) for layer in reversed(range(L))]
    for way in ("gathered_once", "merged_under_512_mib"):
        for x in simplified(problem, way).collectives:
            assert Kind.SUM in {y.kind for y in topological([x])}


def test_there_is_no_backward_of_gradients_and_of_the_entry_site() -> None:
    assert catalog.backward(case("grad_ar")) is None
    entry = {"microbatches": 1, "layers": 1, "shape": [1, 1, 4], "site": "entry"}
    assert catalog.backward(case("tp_mlp", entry)) is None
