"""Simplification by equal copies: members with provably equal values need not talk.

On values equal within each group, all_reduce is a scale by g, reduce_scatter a scale of my slice, all_gather and
all_to_all are layouts. With the normal forms of `sum` this removes every collective from a backward that needs
none.

A rank that sends nothing in a collective_permute lays its operand out as a sender does, for nobody reads it there;
all ranks then often have the value as it is. So the transpose of open ends lays out no zeros.
"""

from collections.abc import Callable

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.arithmetics import is_max
from overlayccl_core.program.facts import equal_in_groups
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, Outputs, make_scale, make_view, rebuild, topological
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from overlayccl_core.program.substitution import substitute


def simplify(program: Program) -> Program:
    """The Program without collectives of equal copies, nor layouts that nobody sends; itself if there are none.

    It is rescheduled; the other collectives keep their labels.
    """
    outputs = simplified(program.outputs)
    if all(outputs[port] is x for port, x in program.outputs.items()):
        return program
    return schedule(program.problem, outputs)


def simplified(outputs: Outputs) -> Outputs:
    """The outputs without collectives of equal copies, nor layouts that nobody sends; one pass, operands first."""
    sites = [x for x in topological(outputs.values()) if x.is_collective]
    return substitute(outputs, {x: _replacement(x) for x in sites})


def _replacement(x: Node) -> Callable[[Callable[[Node], Node]], Node]:
    def replace(go: Callable[[Node], Node]) -> Node:
        operand = go(x.operands[0])
        if x.kind is Kind.COLLECTIVE_PERMUTE:
            return rebuild(x, [_as_sent(x, operand)])
        try:
            return without_talk(x, operand) or rebuild(x, [operand])
        except Rejected:  # the layout in its place is too ragged
            return rebuild(x, [operand])

    return replace


def _as_sent(x: Node, operand: Node) -> Node:
    """The operand of a permute, laid out on ranks that send nothing as on the first that sends."""
    senders = sorted({*x.sources} - {-1})
    if operand.kind is not Kind.VIEW or not senders:
        return operand
    order = [rank if rank in senders else senders[0] for rank in range(len(x.sources))]
    return make_view(operand.operands, map_algebra.take_rows(operand.map, order), operand.dtype)


def without_talk(x: Node, operand: Node) -> Node | None:
    """The collective x on `operand` as local work, if everything it moves is equal within its groups."""
    if equal_in_groups(operand, x.groups):
        return _local(x, [operand], maps.identity(operand.size))
    ratio, core = (operand.ratio, operand.operands[0]) if operand.kind is Kind.SCALE else (1, operand)
    gathers = x.kind in (Kind.ALL_GATHER, Kind.ALL_TO_ALL)
    if gathers and core.kind is Kind.VIEW and all(equal_in_groups(y, x.groups) for y in core.operands):
        return make_scale(_local(x, list(core.operands), core.map), ratio)
    return None


def _local(x: Node, operands: list[Node], map_: Map) -> Node:
    """The collective x of view(operands, map_), for operands equal within each group."""
    groups, g = x.groups, x.groups.size
    times = 1 if is_max(x) else g
    if x.kind is Kind.ALL_REDUCE:
        return make_scale(make_view(operands, map_, x.dtype), times)
    if x.kind is Kind.REDUCE_SCATTER:
        mine = maps.window(groups.place * x.size, x.size)
        return make_scale(make_view(operands, map_algebra.compose(mine, map_), x.dtype), times)
    return make_view(operands, _from_members(x, map_), x.dtype)


def _from_members(x: Node, map_: Map) -> Map:
    """The map of an all_gather or all_to_all of a view by `map_`, read from values equal within groups.

    The rows of `map_` are read as one long row; every rank takes its members' blocks of it.
    """
    groups, g = x.groups, x.groups.size
    block = x.size // g
    keys = np.arange(groups.ranks)[:, None] * x.size + np.arange(g) * block
    starts = np.zeros_like(keys)
    if map_.rows > 1:
        starts += groups.array[groups.group] * map_.size
    if x.kind is Kind.ALL_TO_ALL:
        starts += groups.place[:, None] * block
    blocks = Map(groups.ranks, x.size, keys.ravel(), starts.ravel())
    return map_algebra.compose(blocks, Map(1, map_.rows * map_.size, map_.keys, map_.sources))
