"""f(V AG x, z) -> V AG f(x, V_mine z): what everybody computes of what was gathered, each computes of its own part.

What is left of rows by a reduction, or by a lookup, is not gathered but reduced:

    op_of_rows(V AG x)   AR_op(op_of_rows(V_mine x)): a sum of blocks, the sum or the maximum of rows
    pick(V AG x, ids)    AR(pick(V_mine x, ids)): who has the element finds it, the others find zeros

V is one layout for all ranks that reads no element twice; casts and scales may stand on it. Side conditions: more
than one rank. To compute elements: V makes no zeros; z is provably equal within each group. To reduce rows: each is
made of equally many elements of each member; no zeros in a maximum. To look up: ids, and what they count from, are
equal within each group.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.facts import equal_in_groups
from overlayccl_core.program.kinds import Kind, Reduction
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import (
    Node,
    Replacement,
    make_collective,
    make_rowwise,
    make_sum,
    make_view,
    rebuild,
)
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import Form, RowAttr
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, like, no_knobs

KINDS = (Kind.ALL_GATHER,)
NUMERICS = RuleNumerics.REORDERED
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    gathers = {x for x in sites if x.groups.size > 1}
    return {x: new for x in program.nodes if (new := _computed_before(x, gathers)) is not None}


def _computed_before(x: Node, gathers: Collection[Node]) -> Replacement | None:
    """The replacement of x; None if x reads no gather, or not in a way that allows it."""
    form = x.row.operation.form if x.kind is Kind.ROWWISE else None
    if x.kind is Kind.CAST or form is Form.EACH:
        return _elements(x, gathers)
    if x.kind is not Kind.SUM and form not in (Form.REDUCE, Form.PICK):
        return None
    parts = parts_of(x.operands[0], gathers)
    if parts is None:
        return None
    return _picked(x, parts) if form is Form.PICK else _reduced(x, parts)


# ------------------------------------------------------------------------------------------ who holds what
@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The places of the members' elements in a layout, of `size` elements, of a gather.

    int64[pieces], sorted by place, then offset: the `length` elements from `offset` on of the member at `place` are
    those from `start` on of the layout.
    """

    gather: Node
    size: int
    place: Ints
    offset: Ints
    start: Ints
    length: Ints

    @property
    def has_zeros(self) -> bool:
        """Whether the layout has zeros besides the members' elements."""
        return int(self.length.sum()) < self.size

    @property
    def block(self) -> int:
        """The number of elements of each member."""
        return self.gather.operands[0].size

    def cut(self, width: int) -> "Parts":
        """Return the same pieces, cut at the ends of the layout's rows of `width` elements."""
        piece, start, length = map_algebra.cut_at_multiples(self.start, self.length, width)
        offset = self.offset[piece] + start - self.start[piece]
        return replace(self, place=self.place[piece], offset=offset, start=start, length=length)

    def of_mine(self, by_place: Map) -> Map:
        """Return the map with, on every rank, the row of its place in its group."""
        return map_algebra.take_rows(by_place, self.gather.groups.place)


def parts_of(x: Node, gathers: Collection[Node]) -> Parts | None:
    """Return the parts of a gather, or of one layout of it (no element twice) under casts and scales; else None."""
    core = _under_casts(x)
    gather, layout = (core.operands[0], core.map) if _is_layout(core) else (core, maps.identity(core.size))
    if gather not in gathers or layout.rows > 1:
        return None
    block = gather.operands[0].size
    ends = np.arange(1, gather.groups.size + 1) * block
    _, start, source, length = map_algebra.split_sources(layout, ends)
    order = np.argsort(source, kind="stable")
    start, source, length = start[order], source[order], length[order]
    if (source[1:] < (source + length)[:-1]).any():
        return None
    place, offset = np.divmod(source, block)
    return Parts(gather=gather, size=core.size, place=place, offset=offset, start=start, length=length)


def _under_casts(x: Node) -> Node:
    while x.kind in (Kind.CAST, Kind.SCALE):
        x = x.operands[0]
    return x


def _is_layout(x: Node) -> bool:
    return x.kind is Kind.VIEW and len(x.operands) == 1


def _of_mine(x: Node, layout: Map | None, go: Callable[[Node], Node]) -> Node:
    """A member's own part in place of x: the same casts and scales, of its own layout."""
    if x.kind in (Kind.CAST, Kind.SCALE):
        return rebuild(x, [_of_mine(x.operands[0], layout, go)])
    gather = x.operands[0] if _is_layout(x) else x
    mine = go(gather.operands[0])
    return mine if layout is None else make_view([mine], layout)


# ------------------------------------------------------------------------------------ elements by elements
def _elements(x: Node, gathers: Collection[Node]) -> Replacement | None:
    """An operation on elements of its first gathered wide operand; the others are equal copies."""
    wide = [(y, parts_of(y, gathers)) for y in dict.fromkeys(x.operands) if y.size == x.size]
    without_zeros = [(y, parts) for y, parts in wide if parts and not parts.has_zeros]
    if not without_zeros:
        return None
    gathered, parts = without_zeros[0]
    others = [y for y in dict.fromkeys(x.operands) if y is not gathered]
    if not all(equal_in_groups(y, parts.gather.groups) for y in others):
        return None
    layouts, attr = {}, x.attr
    if any(y.size == x.size for y in others):
        every = _elements_of_mine(parts)
        layouts = {y: every for y in others if y.size == x.size}
    if any(y.size < x.size for y in others):
        rows, width = _rows_of_mine(parts, x.row.width)
        layouts |= {y: rows for y in others if y.size < x.size}
        attr = RowAttr(name=x.row.name, width=width)

    def build(go: Callable[[Node], Node]) -> Node:
        mine = {gathered: _of_mine(gathered, None, go)}
        mine |= {y: make_view([go(y)], layout) for y, layout in layouts.items()}
        operands = [mine[y] for y in x.operands]
        computed = rebuild(x, operands) if x.kind is Kind.CAST else make_rowwise(attr, operands)
        everybodys = like(parts.gather, Kind.ALL_GATHER, computed)
        core = _under_casts(gathered)
        return make_view([everybodys], core.map) if _is_layout(core) else everybodys

    return build


def _elements_of_mine(parts: Parts) -> Map:
    """From a value as large as the layout to the elements at the places of my own."""
    keys = parts.place * parts.block + parts.offset
    by_place = maps.from_pieces(parts.gather.groups.size, parts.block, keys, parts.start, parts.length)
    return parts.of_mine(by_place)


def _rows_of_mine(parts: Parts, width: int) -> tuple[Map, int]:
    """(from one element for each row of `width` to one for each row of my own, their width): as wide as can be."""
    pieces, block = parts.cut(width), parts.block
    at, row = pieces.place * block + pieces.offset, pieces.start // width
    begins = np.append(True, row[1:] != row[:-1])
    at, row = at[begins], row[begins]
    mine = int(np.gcd.reduce(np.append(at, block)))
    chunks = np.arange(parts.gather.size // mine) * mine
    table = row[np.searchsorted(at, chunks, "right") - 1].reshape(parts.gather.groups.size, -1)
    return parts.of_mine(maps.from_table(table)), mine


# ---------------------------------------------------------------------------------------- what is reduced
def _reduced(x: Node, parts: Parts) -> Replacement | None:
    """A sum of blocks, or rows reduced to one element: each member reduces its own terms."""
    reduction = Reduction.SUM if x.kind is Kind.SUM else x.row.operation.reduction
    if reduction is None or (parts.has_zeros and reduction is not Reduction.SUM):
        return None
    layout = _in_blocks(parts, x.size) if x.kind is Kind.SUM else _in_rows(parts, x.row.width)
    if layout is None:
        return None
    terms = layout.size // x.size

    def build(go: Callable[[Node], Node]) -> Node:
        mine = _of_mine(x.operands[0], layout, go)
        if x.kind is Kind.SUM:
            mine = make_sum(mine, terms)
        else:
            mine = make_rowwise(RowAttr(name=x.row.name, width=terms), [mine])
        return make_collective(Kind.ALL_REDUCE, mine, parts.gather.groups, parts.gather.label, reduction)

    return build


def _in_rows(parts: Parts, width: int) -> Map | None:
    """My own terms of each row of `width`, rows in order; None if members do not have equally many of each row."""
    pieces, g = parts.cut(width), parts.gather.groups.size
    rows = parts.size // width
    row = pieces.place * rows + pieces.start // width
    filled = np.zeros(g * rows, np.int64)
    np.add.at(filled, row, pieces.length)
    if (filled != filled[0]).any():
        return None
    order = np.argsort(row, kind="stable")
    length = pieces.length[order]
    keys = np.cumsum(length) - length
    return parts.of_mine(maps.from_pieces(g, rows * int(filled[0]), keys, pieces.offset[order], length))


def _in_blocks(parts: Parts, size: int) -> Map:
    """My own terms of each of `size` sums, a block of terms after the other, zeros where I have fewer."""
    pieces, g = parts.cut(size), parts.gather.groups.size
    keys = pieces.place * parts.block + pieces.offset
    summed_into = maps.from_pieces(g, parts.block, keys, pieces.start % size, pieces.length)
    layers = map_algebra.inverse_layers(summed_into, 0, size)
    return parts.of_mine(maps.side_by_side(layers))


def _picked(x: Node, parts: Parts) -> Replacement | None:
    """The element of each row at an id: each member looks among its own elements."""
    ids, groups, width = x.operands[1], parts.gather.groups, x.row.width
    first = np.resize(np.array(x.row.first), groups.ranks)[groups.array]
    if not equal_in_groups(ids, groups) or (first != first[:, :1]).any():
        return None
    pieces = parts.cut(width)
    column = pieces.start % width
    lowest, highest = np.full(groups.size, width), np.zeros(groups.size, np.int64)
    np.minimum.at(lowest, pieces.place, column)
    np.maximum.at(highest, pieces.place, column + pieces.length)
    my_width = int((highest - lowest).max())
    rows = parts.size // width
    keys = (pieces.place * rows + pieces.start // width) * my_width + column - lowest[pieces.place]
    layout = parts.of_mine(maps.from_pieces(groups.size, rows * my_width, keys, pieces.offset, pieces.length))
    mine_first = np.resize(np.array(x.row.first), groups.ranks) + lowest[groups.place]
    attr = RowAttr(name=x.row.name, width=my_width, first=tuple(mine_first.tolist()))

    def build(go: Callable[[Node], Node]) -> Node:
        found = make_rowwise(attr, [_of_mine(x.operands[0], layout, go), go(ids)])
        return like(parts.gather, Kind.ALL_REDUCE, found)

    return build
