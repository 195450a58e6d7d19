"""Rebuild the events of a Program from its outputs: collectives by depth, reads late, writes early."""

from collections.abc import Iterable

from overlayccl_core.program.calls import calls_of
from overlayccl_core.program.in_flight import in_flight
from overlayccl_core.program.kinds import IN_FLIGHT, IssueOrder, Kind
from overlayccl_core.program.nodes import Node, Outputs, Port, topological
from overlayccl_core.program.problem import Problem, Segment
from overlayccl_core.program.program import BOUNDARY, Event, Issue, Program, Read, Write
from overlayccl_core.program.segments import Depths, readiness


def schedule(problem: Problem, outputs: Outputs) -> Program:
    """Return a legal Program with these outputs.

    Order by depth through the segments is always legal. Calls of one depth follow the order in which the model
    gives their inputs. Calls labelled `early` are issued first, and an output that needs one of them is written
    after all of them are in flight. If a call is labelled with a number of calls in flight, the order is that of
    `in_flight`. A boundary stands between collectives of different graphs.
    """
    depths = Depths(problem, outputs)
    order = topological(outputs.values())
    position = {x: i for i, x in enumerate(order)}
    ready = readiness(problem, order)
    depth = {x: depths.node(x) for x in order}
    if any(x.label.issue in IN_FLIGHT for x in order if x.is_collective):
        return Program(problem, _with_reads_and_boundaries(in_flight(problem, outputs)))

    def place(x: Node) -> tuple[int, bool, int, int]:
        return depth[x], _late(x), ready[x], position[x]

    collectives = sorted((x for x in order if x.is_collective), key=place)
    issue = sorted(calls_of(collectives), key=lambda call: max(map(place, call)))
    ticket = {x: i for i, call in enumerate(issue) for x in call}
    level_end = {depth[call[0]]: i for i, call in enumerate(issue)}
    early_end = {depth[call[0]]: i for i, call in enumerate(issue) if not _late(call[0])}
    when: dict[Node, int] = {}  # ticket of the last collective that a node waits for
    for x in order:
        own = [ticket[x] if _late(x) else early_end[depth[x]]] if x in ticket else []
        read = [level_end.get(depth[x], -1)] if x.kind is Kind.INPUT else []
        when[x] = max(own + read + [when[y] for y in x.operands], default=-1)
    steps: list[tuple[tuple[int, int, int], Issue | Write]] = [
        ((i, 0, 0), Issue(call)) for i, call in enumerate(issue)
    ]
    steps += [
        ((when[outputs[port]], 1, i), Write(port, outputs[port]))
        for i, port in enumerate(_in_order_of_need(problem, outputs))
    ]
    steps.sort(key=lambda step: step[0])
    return Program(problem, _with_reads_and_boundaries(event for _, event in steps))


def _in_order_of_need(problem: Problem, outputs: Outputs) -> list[Port]:
    """The outputs in their own order, each after those needed by its inputs' segments.

    Nothing else orders two writes that wait for the same collectives.
    """
    segments = {s.name: s for s in problem.segments}
    givers = _givers(problem, outputs)
    order: dict[Port, None] = {}
    todo = list(reversed(outputs))
    opened: set[Port] = set()
    while todo:
        port = todo[-1]
        if port in order or port in opened:
            order.setdefault(todo.pop())
            continue
        opened.add(port)
        needed = _needed((segments[name] for name in givers[outputs[port]]), segments)
        todo.extend(p for p in reversed(needed) if p not in opened)
    return list(order)


def _givers(problem: Problem, outputs: Outputs) -> dict[Node, tuple[Port, ...]]:
    """node -> the segments giving its inputs, in order of first use; shared by nodes of one operand."""
    givers: dict[Node, tuple[Port, ...]] = {}
    for x in topological(outputs.values()):
        if x.kind is Kind.INPUT:
            giver = problem.giver(x.port)
            givers[x] = () if giver is None else (giver.name,)
        elif len(x.operands) == 1:
            givers[x] = givers[x.operands[0]]
        else:
            givers[x] = tuple(dict.fromkeys(name for y in x.operands for name in givers[y]))
    return givers


def _needed(givers: Iterable[Segment], segments: dict[Port, Segment]) -> list[Port]:
    """Outputs that must be written before all these segments have run."""
    needed: dict[Port, None] = {}
    seen: set[Port] = set()
    todo = list(givers)
    while todo:
        s = todo.pop()
        if s.name not in seen:
            seen.add(s.name)
            needed.update(dict.fromkeys(s.needs))
            todo.extend(segments[name] for name in s.after)
    return list(needed)


def _late(x: Node) -> bool:
    return x.label.issue is not IssueOrder.EARLY


def _with_reads_and_boundaries(events: Iterable[Issue | Write]) -> list[Event]:
    """Add each read right before its first use, and a boundary at each change of graph."""
    out: list[Event] = []
    seen: set[Node] = set()
    graph: str | None = None
    for event in events:
        nodes = event.call if isinstance(event, Issue) else (event.node,)
        if isinstance(event, Issue):
            if graph is not None and nodes[0].label.graph != graph:
                out.append(BOUNDARY)
            graph = nodes[0].label.graph
        for x in topological(nodes, seen):
            seen.add(x)
            if x.kind is Kind.INPUT:
                out.append(Read(x.port))
        out.append(event)
    return out
