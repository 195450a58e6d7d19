"""sum(V(AR a, AR b, ..)) -> AR(sum(V(a, b, ..))): add up what is here, then reduce once. RS likewise.

V is one layout for all ranks; the reductions may stand under exact ratios. Of what is scattered, each member's
block is laid out so. Side conditions: all operands of the sum are reductions of the class that sum, over the same
groups, under the same label, read by nothing but such sums; the sums are smaller than all of them together.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, Replacement, make_scale, make_sum, make_view, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import (
    Factor,
    Replacements,
    RuleNumerics,
    adds,
    blocks_in,
    cut_apart,
    no_knobs,
    side_by_side,
)

KINDS = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
NUMERICS = RuleNumerics.REORDERED
FACTOR = Factor.MERGE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    users, written = program.users(), set(program.outputs.values())
    sums = {x: between for x in program.nodes if (between := _between(x, set(sites)))}
    while True:
        known = {*sums, *(node for between in sums.values() for node in between)}
        wanted = {node for node in known - set(sums) if node in written or not known.issuperset(users[node])}
        if not any(wanted.intersection(between) for between in sums.values()):
            break
        sums = {x: between for x, between in sums.items() if not wanted.intersection(between)}
    replacements: dict[Node, Replacement] = {}
    for together in _sharing(sums):
        same: dict[frozenset[Node], list[Node]] = {}  # sums of the same reductions wait for no others
        for x in together:
            same.setdefault(frozenset(map(_without_scale, _parts(x))), []).append(x)
        reductions = frozenset().union(*same)
        if sum(x.size for x in together) < sum(x.size for x in reductions):
            for sums_of_same in same.values():
                replacements |= _reduced_once(sums_of_same)
    return replacements


def _between(total: Node, sites: set[Node]) -> set[Node]:
    """A sum's layout, summands and reductions; none unless the summands are alike reductions only."""
    if total.kind is not Kind.SUM:
        return set()
    (joined,) = total.operands
    if joined.kind is Kind.VIEW and joined.map.rows > 1:
        return set()
    parts = _parts(total)
    reductions = [_without_scale(part) for part in parts]
    if not reductions or not all(x in sites and adds(x) for x in reductions):
        return set()
    alike = len({(x.groups, x.label) for x in reductions}) == 1
    return {joined, *parts, *reductions} if alike else set()


def _sharing(sums: Mapping[Node, set[Node]]) -> list[list[Node]]:
    """The sums in lists: sums over parts of one reduction are in one list."""
    lists: list[tuple[list[Node], set[Node]]] = []
    for x, between in sums.items():
        mine, nodes = [x], set(between)
        for other in [one for one in lists if not nodes.isdisjoint(one[1])]:
            lists.remove(other)
            mine, nodes = [*other[0], *mine], nodes | other[1]
        lists.append((mine, nodes))
    return [mine for mine, _ in lists]


def _parts(total: Node) -> Sequence[Node]:
    (joined,) = total.operands
    return joined.operands if joined.kind is Kind.VIEW else (joined,)


def _without_scale(x: Node) -> Node:
    return x.operands[0] if x.kind is Kind.SCALE else x


def _reduced_once(sums: Sequence[Node]) -> dict[Node, Replacement]:
    """Each sum as columns of one reduction, made once."""
    first = _without_scale(_parts(sums[0])[0])

    @cache
    def whole(go: Callable[[Node], Node]) -> Node:
        return rebuild(first, [side_by_side([_summed_before(x, go) for x in sums], blocks_in(first))])

    return cut_apart(whole, sums, 1)


def _summed_before(total: Node, go: Callable[[Node], Node]) -> Node:
    """The sum of the reductions' operands, to be reduced afterwards."""
    (joined,), parts = total.operands, _parts(total)
    layout = joined.map if joined.kind is Kind.VIEW else maps.identity(joined.size)
    blocks = blocks_in(_without_scale(parts[0]))
    values = []
    for part in parts:
        operand = go(_without_scale(part).operands[0])
        values.append(make_scale(operand, part.ratio) if part.kind is Kind.SCALE else operand)
    before = _of_blocks(layout, [part.size for part in parts], blocks, total.size)
    return make_sum(make_view(values, before), total.count)


def _of_blocks(layout: Map, sizes: Sequence[int], blocks: int, size: int) -> Map:
    """The layout of results of these sizes, for the reductions' operands: `blocks` of each, one a member.

    layout: Of summands of `size` elements; each becomes `blocks` blocks of that size.
    """
    ends = np.cumsum(sizes)
    _, destination, source, length = map_algebra.split_sources(layout, ends[:-1])
    cut, start, length = map_algebra.cut_at_multiples(destination, length, size)
    source = source[cut] + start - destination[cut]
    part = np.searchsorted(ends, source, "right")
    first, summand = ends[part] - np.asarray(sizes)[part], start // size
    block = np.arange(blocks)[:, None]
    placed = (summand * blocks + block) * size + start % size
    taken = blocks * first + block * np.asarray(sizes)[part] + source - first
    lengths = np.tile(length, blocks)
    return maps.from_pieces(1, layout.size * blocks, placed.ravel(), taken.ravel(), lengths)
