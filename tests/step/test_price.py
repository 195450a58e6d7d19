"""The price in the step, against times by hand."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from overlayccl_core.costmodel.beside import Shares, both_us
from overlayccl_core.probes.probe import ProbeBuilder
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.program import Program
from overlayccl_core.step.price import StepCost, TimedSegment, step_us
from overlayccl_core.step.segment import Outline

WAITED, AHEAD = False, True
CALL = StepCost(us=100, link="node")


def of_halves(halves: int, *, ahead: bool) -> Program:
    """Sums of `halves` values, each waited for at once, or one in flight while the next value is made."""
    probe = ProbeBuilder(4, 4)
    before = None
    for _ in range(halves):
        mine = probe.issue(Kind.ALL_REDUCE, probe.read(8))
        if before is not None:
            probe.write(before)
        if not ahead:
            probe.write(mine)
        before = mine if ahead else None
    if before is not None:
        probe.write(before)
    return probe.finish("halves").program


def segments_of(program: Program, us: Sequence[float], last_us: float = 0.0) -> list[TimedSegment]:
    """A segment makes each input; the last needs all outputs."""
    made = [
        TimedSegment(outline=Outline(name=("made", i), gives=(("s", port),)), us=one)
        for i, (port, one) in enumerate(zip(program.problem.inputs, us, strict=True))
    ]
    needs = tuple(("s", port) for port in program.problem.outputs)
    return [*made, TimedSegment(outline=Outline(name=("end",), needs=needs), us=last_us)]


def priced(
    program: Program, segments: Sequence[TimedSegment], cost: Callable[[int], StepCost] = lambda _: CALL
) -> float:
    """The step with a cost for each call, by its number, and local steps for nothing."""
    starts = iter(range(100))
    costs = [
        (step, cost(next(starts)) if step.action is Action.START else StepCost(us=0))
        for step in lower(program)
    ]
    return step_us({"s": (program, costs)}, segments)


def test_calls_that_are_waited_for_add_up_with_the_segments() -> None:
    program = of_halves(3, ahead=WAITED)
    assert priced(program, segments_of(program, (50, 60, 70), 20)) == pytest.approx(3 * 100 + 200)


@pytest.mark.parametrize(
    ("call_us", "expected"),
    [(40, 50 + 60 + 70 + 40), (100, 50 + 3 * 100)],  # the critical path; the link's queue
)
def test_a_call_in_flight_hides_behind_the_next_segment_but_not_behind_calls_of_its_link(
    call_us: float, expected: float
) -> None:
    program = of_halves(3, ahead=AHEAD)
    cost = StepCost(us=call_us, link="node")
    assert priced(program, segments_of(program, (50, 60, 70)), lambda _: cost) == pytest.approx(expected)


def test_calls_of_two_links_go_side_by_side_as_far_as_the_core_lets_them() -> None:
    probe = ProbeBuilder(4, 4)
    for y in [probe.issue(Kind.ALL_REDUCE, probe.read(8)) for _ in range(2)]:
        probe.write(y)
    program = probe.finish("two").program
    segments = segments_of(program, (0, 0))

    def on_links(cpu_us: float) -> Callable[[int], StepCost]:
        return lambda number: StepCost(us=100, cpu_us=cpu_us, link=("node", "network")[number])

    assert priced(program, segments) == pytest.approx(200)
    assert priced(program, segments, on_links(0)) == pytest.approx(100)
    assert priced(program, segments, on_links(75)) == pytest.approx(150)


def test_a_call_that_needs_all_of_the_core_hides_nothing() -> None:
    busy = StepCost(us=100, cpu_us=100, link="node")
    times = []
    for ahead in (WAITED, AHEAD):
        program = of_halves(4, ahead=ahead)
        times.append(priced(program, segments_of(program, (80,) * 4), lambda _: busy))
    assert times == pytest.approx([4 * 180] * 2)


@pytest.mark.parametrize(
    ("cpu", "slower", "work_us"), [*product((0.0, 0.4, 1.0), (1.0, 1.5), (30, 100, 900))]
)
def test_a_call_and_work_that_start_together_take_what_the_fit_of_their_costs_says(
    cpu: float, slower: float, work_us: float
) -> None:
    program = of_halves(2, ahead=AHEAD)
    costs = (StepCost(us=100, cpu_us=100 * cpu, beside=slower, link="node"), StepCost(us=0, link="node"))
    us = priced(program, segments_of(program, (0, work_us)), lambda number: costs[number])
    assert us == pytest.approx(both_us(100, work_us, Shares(cpu=cpu, slower=slower)))


def test_local_work_takes_the_core() -> None:
    program = of_halves(2, ahead=AHEAD)
    costs = [(step, CALL if step.action is Action.START else StepCost(us=1)) for step in lower(program)]
    others = sum(step.action is not Action.START for step in lower(program))
    us = step_us({"s": (program, costs)}, segments_of(program, (200, 200)))
    assert us == pytest.approx(400 + 100 + others - 2)  # the second read, and the wait, are during a call


def test_a_cost_beyond_its_own_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got 11, 10 and 1"):
        StepCost(us=10, cpu_us=11)
