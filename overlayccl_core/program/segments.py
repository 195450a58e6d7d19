"""Order: the model's own work between collectives, and the orders it allows.

A Segment runs when the outputs it needs are written and the segments before it have run; then its inputs exist.
This partial order is the only source of legality: a Program is legal iff its events can be walked. It also gives
each collective a depth in time, counted through the segments: two collectives of equal depth can never wait for
each other, so they may always be merged. And it gives each node a readiness: the model's progress when everything
below the node exists, whatever the schedule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from overlayccl_core.program.calls import Call, call_key, calls_of
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.nodes import Node, Port, topological
from overlayccl_core.program.problem import Problem, Segment, port_text
from overlayccl_core.program.program import Event, Program, Read, Write

FROM_THE_START = -1  # readiness without a segment below


class IllegalOrder(Rejected):
    """A Program waits for itself through the model; names the segment and the missing output."""


@dataclass(frozen=True, slots=True)
class RunSegment:
    """The model runs a segment."""

    segment: Segment


def walk(program: Program) -> list[tuple[int, Event | RunSegment]]:
    """Put a RunSegment into the events for every segment.

    A segment runs when its product is read, or as soon as all it needs is written.

    Returns:
        (index of the event, event or RunSegment), in order.
    Raises:
        IllegalOrder: Names the segment and its missing output.
    """
    state = _Walk(program.problem)
    for index, event in enumerate(program.events):
        state.index = index
        if isinstance(event, Read) and (segment := program.problem.giver(event.port)):
            state.run(segment, f"read {port_text(event.port)}")
        state.timeline.append((index, event))
        if isinstance(event, Write):
            state.written.add(event.port)
            state.run_ready(event.port)
    for segment in program.problem.segments:
        state.run(segment, "the end")
    return state.timeline


class _Walk:
    def __init__(self, problem: Problem) -> None:
        self.segments = {s.name: s for s in problem.segments}
        self.index = 0
        self.done: set[Port] = set()
        self.written: set[Port] = set()
        self.timeline: list[tuple[int, Event | RunSegment]] = []
        self.waiting: dict[Port, list[Segment]] = {}  # output -> segments that need it
        for segment in problem.segments:
            for port in segment.needs:
                self.waiting.setdefault(port, []).append(segment)

    def run(self, segment: Segment, why: str) -> None:
        """Run a segment, after all segments before it."""
        todo = [segment]
        while todo:
            s = todo[-1]
            before = [self.segments[n] for n in s.after if n not in self.done]
            if s.name in self.done:
                todo.pop()
            elif before:
                todo.extend(before)
            else:
                self._run_one(todo.pop(), why)

    def _run_one(self, segment: Segment, why: str) -> None:
        for port in segment.needs:
            if port not in self.written:
                raise IllegalOrder(
                    f"{why}: segment {port_text(segment.name)} needs output {port_text(port)},"
                    " which is not written yet: no bundling across a true dependency"
                )
        self.done.add(segment.name)
        self.timeline.append((self.index, RunSegment(segment)))

    def run_ready(self, port: Port) -> None:
        """Run the segments made ready by this write, at once: their outputs can be freed."""
        for s in self.waiting.get(port, ()):
            ready = all(p in self.written for p in s.needs) and all(n in self.done for n in s.after)
            if ready and s.name not in self.done:
                self._run_one(s, "eager")


class Depths:
    """Number of collectives that must be over before a node, a read or a segment, through the model too.

    All collectives of a call have the depth of the last of them.
    """

    def __init__(self, problem: Problem, outputs: Mapping[Port, Node]) -> None:
        self._problem = problem
        self._outputs = outputs
        self._segments = {s.name: s for s in problem.segments}
        self._node: dict[Node, int] = {}
        self._segment: dict[Port, int | None] = {}
        self._call: dict[object, int | None] = {}
        shared = (x for x in topological(outputs.values()) if x.is_collective and x.label.call)
        self._calls: dict[object, Call] = {call_key(call[0]): call for call in calls_of(shared)}

    def node(self, root: Node) -> int:
        """Depth of a node; IllegalOrder if a segment would wait for itself."""
        if root in self._node:
            return self._node[root]
        for x in topological([root], self._node):
            if x in self._node:  # set meanwhile, through a segment
                continue
            if x.is_collective and x.label.call:
                self._node[x] = self.call(call_key(x))
                continue
            below = [self._node[y] for y in x.operands]
            if x.kind is Kind.INPUT and (giver := self._problem.giver(x.port)):
                below.append(self.segment(giver.name))
            self._node[x] = max(below, default=0) + x.is_collective
        return self._node[root]

    def call(self, key: object) -> int:
        """Depth of a call with several collectives; IllegalOrder if it would wait for itself."""
        if key in self._call:
            known = self._call[key]
            if known is None:
                raise IllegalOrder(
                    "a call would wait for itself: collectives are one call across a dependence"
                )
            return known
        self._call[key] = None
        self._call[key] = depth = 1 + max(self.node(y) for x in self._calls[key] for y in x.operands)
        return depth

    def segment(self, name: Port) -> int:
        """Depth of a segment: collectives that must be over before it; IllegalOrder if it waits for itself."""
        if not self._segment:  # in their order, so that a long chain of them is no deep recursion
            for s in self._problem.segments:
                self._depth_of(s.name)
        return self._depth_of(name)

    def _depth_of(self, name: Port) -> int:
        if name in self._segment:
            known = self._segment[name]
            if known is None:
                raise IllegalOrder(
                    f"segment {port_text(name)} would wait for itself: collectives are joined across a dependence"
                )
            return known
        self._segment[name] = None
        s = self._segments[name]
        before = [self.node(self._outputs[p]) for p in s.needs] + [self.segment(n) for n in s.after]
        self._segment[name] = depth = max(before, default=0)
        return depth


def readiness(problem: Problem, order: Iterable[Node]) -> dict[Node, int]:
    """Return for each node the place, among the Problem's segments, of the last one giving an input below it.

    Args:
        order: Nodes, operands first.
    """
    place = {s.name: i for i, s in enumerate(problem.segments)}
    ready: dict[Node, int] = {}
    for x in order:
        if x.kind is Kind.INPUT:
            giver = problem.giver(x.port)
            ready[x] = FROM_THE_START if giver is None else place[giver.name]
        else:
            ready[x] = max((ready[y] for y in x.operands), default=FROM_THE_START)
    return ready


def by_readiness(program: Program, nodes: Iterable[Node]) -> list[Node]:
    """Sort nodes by readiness, then by their order below the outputs."""
    order = topological(program.outputs.values())
    ready = readiness(program.problem, order)
    position = {x: i for i, x in enumerate(order)}
    return sorted(nodes, key=lambda x: (ready[x], position[x]))
