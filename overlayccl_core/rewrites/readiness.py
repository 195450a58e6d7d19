"""The order in which a model gives what collectives work on; it does not depend on how they are scheduled."""

from collections.abc import Iterable

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.program import Program


def by_readiness(program: Program, sites: Iterable[Node]) -> list[Node]:
    """The sites in the order of the last segment that they read from, then as the outputs come.

    So a rule that looks at order does the same to two Programs that differ in their schedules only.
    """
    given = {s.name: i for i, s in enumerate(program.problem.segments)}
    ready: dict[Node, int] = {}
    position = {}
    for i, x in enumerate(topological(program.outputs.values())):
        position[x] = i
        if x.kind is Kind.INPUT:
            giver = program.problem.giver(x.port)
            ready[x] = -1 if giver is None else given[giver.name]
        else:
            ready[x] = max((ready[y] for y in x.operands), default=-1)
    return sorted(sites, key=lambda x: (ready[x], position[x]))
