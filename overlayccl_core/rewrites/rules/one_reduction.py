"""sum(V(AR a, AR b, ..)) -> AR(sum(V(a, b, ..))): add up what is here, then reduce once. RS likewise.

V is one layout for all ranks; the reductions may stand under exact ratios. Of what is scattered, each member's
block is laid out so. Side conditions: all operands of the sum are reductions of the class that sum, over the same
groups, under the same label, read by nothing else; the sum is smaller than they are together. Numerics: reordered.
"""

from collections.abc import Callable, Sequence

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, Replacement, make_scale, make_sum, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, adds, like, no_knobs

KINDS = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Replace the sums."""
    users, known, written = program.users(), set(sites), set(program.outputs.values())

    def lone(x: Node) -> bool:
        return x not in written and len(users[x]) == 1

    return {x: _reduced_once(x) for x in program.nodes if x.kind is Kind.SUM and _saves(x, known, lone)}


def _saves(total: Node, sites: set[Node], lone: Callable[[Node], bool]) -> bool:
    """True if the sum adds up results of reductions only, all alike, that nothing else wants."""
    (joined,) = total.operands
    layout = [joined] if joined.kind is Kind.VIEW else []
    if layout and joined.map.rows > 1:
        return False
    parts = joined.operands if layout else (joined,)
    reductions = [_without_scale(part) for part in parts]
    if not reductions or not all(x in sites and adds(x) for x in reductions):
        return False
    alike = {(x.groups, x.label) for x in reductions}
    return (
        len(alike) == 1
        and total.size < sum(x.size for x in reductions)
        and all(lone(x) for x in (*layout, *parts, *reductions))
    )


def _without_scale(x: Node) -> Node:
    return x.operands[0] if x.kind is Kind.SCALE else x


def _reduced_once(total: Node) -> Replacement:
    (joined,) = total.operands
    is_view = joined.kind is Kind.VIEW
    parts = joined.operands if is_view else (joined,)
    layout = joined.map if is_view else maps.identity(joined.size)
    reduction = _without_scale(parts[0])
    blocks = reduction.groups.size if reduction.kind is Kind.REDUCE_SCATTER else 1
    before = _of_blocks(layout, [part.size for part in parts], blocks, total.size)

    def here(part: Node, go: Callable[[Node], Node]) -> Node:
        """What a part adds up, before it is reduced."""
        operand = go(_without_scale(part).operands[0])
        return make_scale(operand, part.ratio) if part.kind is Kind.SCALE else operand

    def build(go: Callable[[Node], Node]) -> Node:
        whole = make_view([here(part, go) for part in parts], before)
        return like(reduction, reduction.kind, make_sum(whole, total.count))

    return build


def _of_blocks(layout: Map, sizes: Sequence[int], blocks: int, size: int) -> Map:
    """The layout of results of these sizes, as one of what is reduced: so many blocks of each, one a member.

    layout: of summands of `size` elements; each becomes so many blocks of that size.
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
