"""layer_block_ar: what its seeds call, and that no two blocks are joined."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Gate, Reason
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.program import BOUNDARY, Program, Read
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.seed_cases import case
from tests.small_problems import strategy

M, L = 3, 2
ENTRY = {"microbatches": M, "layers": L, "shape": [1, 5, 7]}


def traced(name: str, **change: object) -> Program:
    at = case("layer_block_ar", {**ENTRY, **change})
    return trace_source(catalog.library_source("layer_block_ar"), name, catalog.build(at))


@pytest.mark.parametrize(
    ("name", "sizes", "most_in_flight"),
    [
        ("developer", [35] * 2 * M * L, 0),
        ("single_graph", [35] * 2 * M * L, 2 * M - 1),
        ("stacked", [70] * M * L, 0),
        ("merged_over_microbatches", [70 * M] * L, 0),
    ],
)
def test_the_same_sums_in_fewer_calls(name: str, sizes: list[int], most_in_flight: int) -> None:
    program = traced(name)
    assert [x.kind for x in program.collectives] == [Kind.ALL_REDUCE] * len(sizes)
    assert [x.size for x in program.collectives] == sizes
    assert max(s.in_flight for s in lower(program) if s.action is Action.START) == most_in_flight
    assert program.events.count(BOUNDARY) == (M if name == "developer" else 0)


def test_the_entry_site_runs_the_blocks_in_reverse() -> None:
    reads = [e.port[2] for e in traced("stacked", site="entry").events if isinstance(e, Read)]
    assert reads == [1, 1, 0, 0] * M


def test_no_collective_is_left_in_the_backward() -> None:
    problem = catalog.backward(case("layer_block_ar", ENTRY))
    assert problem is not None
    recipes = [
        Recipe(base=TransposeOf(recipe=Recipe(base=name)))
        for name in (
            "developer",
            "single_graph",
            "stacked",
            "merged_over_microbatches",
            "reduce_scatter_all_gather",
        )
    ]
    assert [replay(recipe, problem).collectives for recipe in recipes] == [[]] * len(recipes)


def test_the_parts_of_two_blocks_are_not_joined() -> None:
    """A block's MLP with the next block's attention: that block has not run."""
    body = """
for m in range(p.microbatches):
    io.write("total", m, 0, 0, all_reduce(io.read("partial", m, 0, 0)))
    joined = [io.read("partial", m, 0, 1), io.read("partial", m, 1, 0)]
    totals = split(all_reduce(concat([flatten(x) for x in joined])), 2)
    io.write("total", m, 0, 1, reshape(totals[0], p.shape))
    io.write("total", m, 1, 0, reshape(totals[1], p.shape))
    io.write("total", m, 1, 1, all_reduce(io.read("partial", m, 1, 1)))
"""
    source = strategy(body, "all_reduce, concat, flatten, reshape, split")
    verdict = legality.check(trace_source(source, "tried", catalog.build(case("layer_block_ar", ENTRY))))
    assert (verdict.gate, verdict.reason) == (Gate.LEGALITY, Reason.ORDER)
    assert "segment block[0, 1] needs output total[0, 0, 1], which is not written yet" in verdict.message
