"""When the model gives what nodes are made of: an order that does not depend on any schedule."""

from collections.abc import Iterable

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program

FROM_THE_START = -1


def readiness(problem: Problem, order: Iterable[Node]) -> dict[Node, int]:
    """node -> place, among the Problem's segments, of the last one that gives an input below it.

    order: nodes, operands first.
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
    """The nodes in the order in which the model gives what they are made of, then as the outputs come."""
    order = topological(program.outputs.values())
    ready = readiness(program.problem, order)
    position = {x: i for i, x in enumerate(order)}
    return sorted(nodes, key=lambda x: (ready[x], position[x]))
