"""Order: which schedules the segments allow, and what a refusal names."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import IssueOrder, Label
from overlayccl_core.program.nodes import relabel, topological
from overlayccl_core.program.program import Program, Write
from overlayccl_core.program.schedule import schedule
from overlayccl_core.program.segments import Depths, IllegalOrder, RunSegment, by_readiness, walk
from overlayccl_core.program.substitution import substitute
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case
from tests.small_problems import layers, traced

PROBLEM = layers(4, 2, 2, (3,))
MICROBATCH_MAJOR = """
for m in range(p.microbatches):
    for l in range(p.layers):
        io.write("total", m, l, all_reduce(io.read("partial", m, l)))
    boundary()
"""
LOCKSTEP = """
for l in range(p.layers):
    xs = [io.read("partial", m, l) for m in range(p.microbatches)]
    total = all_reduce(concat(xs))
    for m, part in enumerate(split(total, p.microbatches)):
        io.write("total", m, l, part)
"""
OVER_LAYERS = """
for m in range(p.microbatches):
    xs = [io.read("partial", m, l) for l in range(p.layers)]
    total = all_reduce(concat(xs))
    for l, part in enumerate(split(total, p.layers)):
        io.write("total", m, l, part)
"""
WAVEFRONT = """
a = all_reduce(io.read("partial", 0, 0))
io.write("total", 0, 0, a)
both = all_reduce(concat([io.read("partial", 0, 1), io.read("partial", 1, 0)]))
io.write("total", 0, 1, slice_axis(both, 0, 0, 3))
io.write("total", 1, 0, slice_axis(both, 0, 3, 3))
io.write("total", 1, 1, all_reduce(io.read("partial", 1, 1)))
"""


def _kinds(program: Program) -> list[str]:
    return [type(e).__name__ for e in program.events]


@pytest.mark.parametrize("body", [MICROBATCH_MAJOR, LOCKSTEP, WAVEFRONT])
def test_schedules_that_respect_the_model_are_legal(body: str) -> None:
    timeline = walk(traced(body, PROBLEM))
    assert sum(isinstance(e, RunSegment) for _, e in timeline) == len(PROBLEM.segments)


def test_bundling_across_a_true_dependency_names_the_segment_and_the_output() -> None:
    with pytest.raises(IllegalOrder, match=r"block\[0, 1\] needs .*total\[0, 0\]"):
        walk(traced(OVER_LAYERS, PROBLEM))


def test_a_segment_runs_as_soon_as_its_needs_are_written() -> None:
    timeline = walk(traced(LOCKSTEP, PROBLEM))
    kinds = [e.segment.name if isinstance(e, RunSegment) else type(e).__name__ for _, e in timeline]
    first_write = kinds.index("Write")
    assert kinds[first_write + 1] == ("block", 0, 1)


def test_depth_counts_collectives_through_the_model() -> None:
    program = traced(MICROBATCH_MAJOR, PROBLEM)
    depths = Depths(PROBLEM, program.outputs)
    assert [depths.node(x) for x in program.collectives] == [1, 2, 1, 2]


def test_depth_of_a_collective_joined_across_a_dependence_is_refused() -> None:
    with pytest.raises(IllegalOrder, match="would wait for itself"):
        schedule(PROBLEM, traced(OVER_LAYERS, PROBLEM).outputs)


@pytest.mark.parametrize("body", [MICROBATCH_MAJOR, LOCKSTEP, WAVEFRONT])
def test_rebuilt_events_compute_the_same_values_in_a_legal_order(body: str) -> None:
    program = traced(body, PROBLEM)
    again = schedule(PROBLEM, program.outputs)
    walk(again)
    assert again.value_digest == program.value_digest
    assert schedule(PROBLEM, again.outputs).digest == again.digest


def test_schedule_reads_late_and_writes_early() -> None:
    again = schedule(PROBLEM, traced(LOCKSTEP, PROBLEM).outputs)
    assert _kinds(again) == ["Read", "Read", "Issue", "Write", "Write"] * 2


def test_what_is_issued_early_is_in_flight_together_before_anything_of_it_is_written() -> None:
    early = Label(issue=IssueOrder.EARLY)
    outputs = traced(MICROBATCH_MAJOR.replace("    boundary()\n", ""), PROBLEM).outputs
    sums = [x for x in topological(outputs.values()) if x.is_collective]
    as_written = schedule(PROBLEM, outputs)
    labelled = substitute(outputs, {x: lambda go, x=x: relabel(x, x.operands[0], early) for x in sums})
    together = schedule(PROBLEM, labelled)
    assert _kinds(as_written) == ["Read", "Issue", "Write", "Read", "Issue", "Write"] * 2
    assert _kinds(together) == ["Read", "Issue", "Read", "Issue", "Write", "Write"] * 2
    walk(together)


def test_collectives_of_one_depth_come_in_the_order_in_which_the_model_gives_their_values() -> None:
    problem = catalog.build(case("grad_ar", {"sizes": [4, 2, 3], "overlap": True}))
    program = replay(Recipe(base="one_by_one"), problem)
    assert [x.size for x in schedule(problem, program.outputs).collectives] == [3, 2, 4]
    turned = dict(reversed(program.outputs.items()))
    assert schedule(problem, turned).collectives == program.collectives
    assert by_readiness(program, reversed(program.collectives)) == program.collectives


def test_schedule_puts_a_boundary_where_the_graph_changes() -> None:
    again = schedule(PROBLEM, traced(MICROBATCH_MAJOR, PROBLEM).outputs)
    names = [type(e).__name__ for e in again.events]
    assert names.count("Boundary") == 3  # g0 g1 | g0 g1: sorted by depth, the graph changes three times


def test_the_value_digest_ignores_the_schedule_and_the_digest_does_not() -> None:
    program = traced(LOCKSTEP, PROBLEM)
    same = substitute(program.outputs, {})
    other = type(program)(PROBLEM, program.events)
    assert other.digest == program.digest and same == program.outputs
    swapped = list(program.events)
    i = next(i for i, e in enumerate(swapped) if isinstance(e, Write))
    swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
    turned = type(program)(PROBLEM, swapped)
    assert turned.value_digest == program.value_digest and turned.digest != program.digest
