"""The run order of a Program's steps, as far as the Program tells it: the basis of its cost."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from math import inf

from overlayccl_core.program.lowering import Action, Step, lower
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Program

_SortKey = tuple[int, float, bool]  # graph, depth, behind the collectives of that depth


def as_run(program: Program) -> tuple[Step, ...]:
    """Return the steps of a Program in the order in which they run (made once, kept with it).

    A called library runs them as the module says. A compiled graph tells depths only: the number of collectives on
    the longest path from the graph's beginning to a value. Collectives of one depth are in flight together, the
    largest first; values made of them come before the collectives of the next depth. So Programs with the same
    graphs have the same order, however their modules say them.
    """
    if not program.problem.case.uniform:
        return lower(program)
    if "as_run" not in program.facts:
        program.facts["as_run"] = tuple(_by_depth(lower(program)))
    return program.facts["as_run"]  # type: ignore[no-any-return]


def _by_depth(steps: tuple[Step, ...]) -> Iterator[Step]:
    placed = sorted(_placed(steps), key=lambda one: one[0])
    for (_, _, behind), group in groupby(placed, key=lambda one: one[0]):
        alike = [step for _, step in group]
        if behind:
            yield from alike
        else:
            yield from (replace(x, in_flight=i) for i, x in enumerate(sorted(alike, key=_largest_first)))


def _placed(steps: tuple[Step, ...]) -> Iterator[tuple[_SortKey, Step]]:
    graph = 0
    depths: dict[Node, int] = {}  # of the values of this graph
    for step in steps:
        if not step.nodes:
            yield (graph, inf, True), step
            graph += 1
            depths = {}
            continue
        depth = max(_depth(step, node, depths) for node in step.nodes)
        depths.update(dict.fromkeys(step.nodes, depth))
        yield (graph, depth, step.action is not Action.START), step


def _depth(step: Step, node: Node, depths: Mapping[Node, int]) -> int:
    if step.action is Action.WRITE:
        return depths.get(node, 0)
    below = max((depths.get(x, 0) for x in step.addends or node.operands), default=0)
    return below + (step.action is Action.START)


def _largest_first(step: Step) -> tuple[int, str, bytes]:
    first = min(step.nodes, key=lambda node: node.digest)
    return -sum(map(payload_bytes, step.nodes)), first.kind.value, first.digest
