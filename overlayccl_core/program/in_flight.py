"""A list schedule: collectives in flight while the model computes.

A call starts as soon as the model can have given its inputs. The Program waits, for the oldest call, only when as
many are in flight as the next call's label allows, or when nothing else can go on. A write comes right behind the
wait for its value, so the model goes on while the other calls are in flight: of two microbatches one computes
while the sum of the other travels.
"""

from bisect import insort
from collections import deque
from graphlib import TopologicalSorter
from math import inf
from typing import Any

from overlayccl_core.program.calls import calls_of
from overlayccl_core.program.kinds import IssueOrder, Kind
from overlayccl_core.program.nodes import Outputs, topological
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Issue, Write
from overlayccl_core.program.segments import readiness

_MOST = {IssueOrder.TWO: 2, IssueOrder.FOUR: 4}


def in_flight(problem: Problem, outputs: Outputs) -> list[Issue | Write]:
    """Return issues and writes in an order that the segments allow.

    Of the calls that can start, the first is the one whose inputs the model gives first, so a microbatch goes on
    before another begins. Calls `as_written` are waited for at once. No event says `wait`: a module waits for a
    value where it is used, so more calls than allowed are in flight while nothing can use the oldest one alone.

    Args:
        outputs: No segment waits for itself (`Depths` finds that out).
    """
    order = topological(outputs.values())
    ready, position = readiness(problem, order), {x: i for i, x in enumerate(order)}
    tasks = _tasks(problem, outputs)
    able: list[tuple[tuple[int, int], Issue]] = []  # may start, in order
    flying: deque[Issue] = deque()
    events: list[Issue | Write] = []
    while tasks.is_active():
        if free := tasks.get_ready():
            for task in free:
                if isinstance(task, Issue):
                    insort(able, (max((ready[x], position[x]) for x in task.call), task))
                    continue
                if isinstance(task, Write):
                    events.append(task)
                tasks.done(task)
        elif start := next((one for one in able if len(flying) < _most(one[1])), None):
            able.remove(start)
            events.append(start[1])
            flying.append(start[1])
            if start[1].call[0].label.issue is IssueOrder.AS_WRITTEN:
                tasks.done(flying.pop())
        else:
            tasks.done(flying.popleft())
    return events


def _most(issue: Issue) -> float:
    """A call may start while fewer are in flight."""
    return _MOST.get(issue.call[0].label.issue, inf)


def _tasks(problem: Problem, outputs: Outputs) -> "TopologicalSorter[Any]":
    """Values, calls, writes and names of segments, each behind those that it waits for."""
    order = topological(outputs.values())
    issues = {x: i for i in map(Issue, calls_of(x for x in order if x.is_collective)) for x in i.call}
    writes = {port: Write(port, x) for port, x in outputs.items()}
    tasks: TopologicalSorter[Any] = TopologicalSorter()
    for x in order:
        if x in issues:
            tasks.add(issues[x], *x.operands)
            tasks.add(x, issues[x])
        elif x.kind is Kind.INPUT and (giver := problem.giver(x.port)):
            tasks.add(x, giver.name)
        else:
            tasks.add(x, *x.operands)
    for s in problem.segments:
        tasks.add(s.name, *(writes[port] for port in s.needs), *s.after)
    for write in writes.values():
        tasks.add(write, write.node)
    tasks.prepare()
    return tasks
