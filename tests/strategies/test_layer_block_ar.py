"""layer_block_ar: what its known ways call, and that no two blocks are joined."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Gate
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.program import BOUNDARY, Program, Read
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import case
from tests.small_problems import strategy

M, L = 3, 2
ENTRY = {"microbatches": M, "layers": L, "shape": [1, 5, 7]}


def traced(name: str, **change: object) -> Program:
    at = case("layer_block_ar", {**ENTRY, **change})
    return trace_source(catalog.library_source("layer_block_ar"), name, catalog.build(at))


@pytest.mark.parametrize(
    ("name", "sizes", "most_in_flight"),
    [
        ("developer", [35] * M * L, 0),
        ("two_sums", [35] * 2 * M * L, 1),
        ("single_graph", [35] * M * L, M - 1),
        ("merged_over_microbatches", [35 * M] * L, 0),
    ],
)
def test_the_same_sums_in_fewer_calls(name: str, sizes: list[int], most_in_flight: int) -> None:
    program = traced(name)
    assert [x.kind for x in program.collectives] == [Kind.ALL_REDUCE] * len(sizes)
    assert [x.size for x in program.collectives] == sizes
    assert max(s.in_flight for s in lower(program) if s.action is Action.START) == most_in_flight
    assert program.events.count(BOUNDARY) == (M if name in ("developer", "two_sums") else 0)


def test_the_entry_site_runs_the_blocks_in_reverse() -> None:
    reads = [e.port[2] for e in traced("developer", site="entry").events if isinstance(e, Read)]
    assert reads == [1, 1, 0, 0] * M


def test_no_collective_is_left_in_the_backward() -> None:
    problem = catalog.backward(case("layer_block_ar", ENTRY))
    assert problem is not None
    recipes = [
        Recipe(base=TransposeOf(recipe=Recipe(base=name)))
        for name in (
            "developer",
            "two_sums",
            "single_graph",
            "merged_over_microbatches",
            "reduce_scatter_all_gather",
        )
    ]
    assert [replay(recipe, problem).collectives for recipe in recipes] == [[]] * len(recipes)


def test_both_parts_have_the_gradient_of_the_total_as_it_comes() -> None:
    problem = catalog.backward(case("layer_block_ar", ENTRY))
    assert problem is not None
    program = replay(Recipe(base=TransposeOf(recipe=Recipe(base="developer"))), problem)
    assert len(problem.inputs) == M * L and len(problem.outputs) == 2 * M * L
    assert {x.kind for x in program.nodes} == {Kind.INPUT}
    assert {port[:3]: program.outputs[port].port[1:] for port in program.outputs} == {
        port[:3]: port[1:3] for port in program.outputs
    }


def test_the_parts_of_two_blocks_are_not_joined() -> None:
    """A block's sum with the next block's: that block has not run."""
    body = """
for m in range(p.microbatches):
    blocks = [add(io.read("partial", m, layer, 0), io.read("partial", m, layer, 1)) for layer in range(2)]
    totals = split(all_reduce(concat([flatten(x) for x in blocks])), 2)
    for layer in range(2):
        io.write("total", m, layer, reshape(totals[layer], p.shape))
"""
    source = strategy(body, "add, all_reduce, concat, flatten, reshape, split")
    verdict = legality.check(trace_source(source, "tried", catalog.build(case("layer_block_ar", ENTRY))))
    assert (verdict.gate, verdict.reason) == (Gate.LEGALITY, Reason.ORDER)
    assert "block[0, 1]" in verdict.message and "total[0, 0]" in verdict.message
