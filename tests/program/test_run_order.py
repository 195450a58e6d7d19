"""The order in which steps run: the module's own, or in a compiled graph what reads what."""

import pytest

from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeBuilder, ProbeRole
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.nodes import Node, make_scale
from overlayccl_core.program.program import Program
from overlayccl_core.program.run_order import as_run
from tests.timing.batches import deployment

SMALL, LARGE = 8, 64


def done(probe: ProbeBuilder) -> Program:
    return probe.finish("p", ProbeRole.STRUCTURED).program


def starts(program: Program) -> list[tuple[int, int]]:
    """(elements, how many in flight) of its collectives as they run."""
    return [(x.node.size, x.in_flight) for x in as_run(program) if x.action is Action.START and x.node]


def one_after_another(*, uniform: bool, sizes: tuple[int, ...] = (SMALL, LARGE, SMALL)) -> Program:
    probe = ProbeBuilder(4, 4, uniform=uniform)
    for size in sizes:
        probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(size)))
    return done(probe)


@pytest.mark.parametrize(
    "probe", mixed_probes(deployment(4), seed=3, count=5, role=ProbeRole.MIXED), ids=lambda p: p.name
)
def test_a_library_that_is_called_runs_what_the_module_says(probe: object) -> None:
    program: Program = probe.program  # type: ignore[attr-defined]
    assert as_run(program) is lower(program)


def test_what_no_collective_of_the_graph_reads_is_in_flight_together_the_largest_first() -> None:
    assert starts(one_after_another(uniform=False)) == [(SMALL, 0), (LARGE, 0), (SMALL, 0)]
    assert starts(one_after_another(uniform=True)) == [(LARGE, 0), (SMALL, 1), (SMALL, 2)]


def test_what_reads_another_comes_behind_all_that_is_as_deep_as_that() -> None:
    """The second reads the first, through local work; the third reads nothing and is said last."""
    probe = ProbeBuilder(4, 4, uniform=True)
    first = probe.issue(Kind.ALL_REDUCE, probe.read(SMALL))
    probe.write(probe.issue(Kind.ALL_TO_ALL, make_scale(first, 3)))
    probe.write(probe.issue(Kind.ALL_GATHER, probe.read(LARGE)))
    program = done(probe)
    assert starts(program) == [(4 * LARGE, 0), (SMALL, 1), (SMALL, 0)]
    assert len(as_run(program)) == len(lower(program))


def test_a_graph_begins_with_nothing_in_flight_and_what_earlier_ones_left() -> None:
    probe = ProbeBuilder(4, 4, uniform=True)
    first = probe.issue(Kind.ALL_REDUCE, probe.read(SMALL))
    probe.boundary()
    second = probe.issue(Kind.ALL_REDUCE, first)
    third = probe.issue(Kind.ALL_REDUCE, probe.read(LARGE))
    probe.write(second)
    probe.write(third)
    program = done(probe)
    assert starts(program) == [(SMALL, 0), (LARGE, 0), (SMALL, 1)]
    graphs = [step.action for step in as_run(program) if step.action in (Action.START, Action.BOUNDARY)]
    assert graphs == [Action.START, Action.BOUNDARY, Action.START, Action.START]


def test_every_value_is_made_before_it_is_read() -> None:
    probes = mixed_probes(deployment(4).changed(uniform=True), seed=3, count=30, role=ProbeRole.MIXED)
    for probe in probes:
        made: set[Node] = set()
        for step in as_run(probe.program):
            if step.node is not None:
                needed = [step.node] if step.action is Action.WRITE else step.node.operands
                assert made.issuperset(needed), probe.name
                made.add(step.node)


def test_nothing_waits_and_no_module_has_a_wait_where_ranks_compile() -> None:
    actions = [step.action for step in lower(one_after_another(uniform=True))]
    assert Action.WAIT not in actions and not any(x.in_flight for x in lower(one_after_another(uniform=True)))
