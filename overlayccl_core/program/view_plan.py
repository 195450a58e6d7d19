"""How a view is made: the cheapest form that its map allows.

In order of preference: an alias of one operand, zeros, k copies, a few pieces joined, a mixed radix form
(reshape, narrow, permute), rows picked by a table. The emitter prints the plan, the cost model prices it.

A library that compiles graphs wants one graph for all ranks. There a plan is `uniform`: where ranks need different
slices, they pick rows by tables of one shape instead.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

import numpy as np

from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node

FEW_PIECES = 4  # of one operand; with more, one strided copy costs less than so many slices and a join
MOST_PIECES = 16  # on one rank; more are picked by a table


class Layout(StrEnum):
    """Forms of a view."""

    ALIAS = "alias"
    ZEROS = "zeros"
    REPEAT = "repeat"
    PIECES = "pieces"
    RADIX = "radix"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Piece:
    """[start, start + length) of one operand; operand -1: zeros."""

    operand: int
    start: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPlan:
    """One form of a view. Which fields count depends on `layout`.

    pieces: one tuple for all ranks alike, or one per rank (alias: of one piece each, all equally long).
    repeat: copies of the joined operands.
    shape, starts, extents, order: reshape the joined operands to `shape`, narrow axis a to
    [starts[a][row], + extents[a]), permute the axes by `order`.
    width, rows: rows of `width` elements of the joined operands, as runs (first row or -1, rows).
    joins: several operands are laid end to end first.
    """

    layout: Layout
    pieces: tuple[tuple[Piece, ...], ...] = ()
    repeat: int = 1
    shape: tuple[int, ...] = ()
    starts: tuple[tuple[int, ...], ...] = ()
    extents: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    width: int = 1
    rows: tuple[tuple[tuple[int, int], ...], ...] = ()
    joins: bool = False

    @property
    def is_alias(self) -> bool:
        """True if nothing is copied."""
        return self.layout is Layout.ALIAS

    @property
    def slices_differ(self) -> bool:
        """True if ranks take different slices: what is printed of them then depends on the rank."""
        return len(set(self.pieces)) > 1 or any(len(set(first)) > 1 for first in self.starts)


def view_plan(node: Node, *, uniform: bool = False) -> ViewPlan:
    """The plan of a view node. uniform: ranks differ in nothing but the entries of their tables."""
    name = "uniform_plan" if uniform else "view_plan"
    plan: ViewPlan | None = node.facts.get(name)
    if plan is None:
        key = _Key(node.map, tuple(x.size for x in node.operands))
        plan = _plan(key)
        if uniform and plan.slices_differ:
            plan = _rows(key.map, sum(key.sizes), len(key.sizes) > 1)
        node.facts[name] = plan
    return plan


class _Key:
    """A map and the sizes of its operands, compared by content."""

    __slots__ = ("map", "sizes")

    def __init__(self, map_: Map, sizes: tuple[int, ...]) -> None:
        self.map = map_
        self.sizes = sizes

    def __hash__(self) -> int:
        return hash((self.map.digest, self.sizes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and (self.map.digest, self.sizes) == (other.map.digest, other.sizes)


@lru_cache(maxsize=4096)
def _plan(key: _Key) -> ViewPlan:
    m, sizes = key.map, key.sizes
    if not sizes:
        return ViewPlan(layout=Layout.ZEROS)
    total, joins = sum(sizes), len(sizes) > 1
    pieces = _pieces(m, sizes)
    if pieces and all(len(p) == 1 and p[0].operand == pieces[0][0].operand >= 0 for p in pieces):
        return ViewPlan(layout=Layout.ALIAS, pieces=pieces)
    if (k := _repeats(m, total)) > 1:
        return ViewPlan(layout=Layout.REPEAT, repeat=k, joins=joins)
    if pieces and (joins or max(map(len, pieces)) <= FEW_PIECES):
        return ViewPlan(layout=Layout.PIECES, pieces=pieces)
    if radix := _radix(m, total, joins):
        return radix
    return ViewPlan(layout=Layout.PIECES, pieces=pieces) if pieces else _rows(m, total, joins)


def _repeats(m: Map, total: int) -> int:
    whole = m.rows == 1 and m.size == m.runs * total and bool((m.sources == 0).all())
    return m.runs if whole else 0


def _pieces(m: Map, sizes: tuple[int, ...]) -> tuple[tuple[Piece, ...], ...]:
    """The pieces of each row, or nothing if some rank needs more than MOST_PIECES (and the operands fewer)."""
    limit = max(MOST_PIECES, len(sizes))
    if m.runs > limit * m.rows:
        return ()
    ends = np.cumsum(sizes)
    rows = []
    for rank in range(m.rows):
        _, source, length = m.row(rank)
        row = [
            p for s, n in zip(source.tolist(), length.tolist(), strict=True) for p in _cut(s, n, ends, sizes)
        ]
        if len(row) > limit:
            return ()
        rows.append(tuple(row))
    return tuple(rows)


def _cut(source: int, length: int, ends: Ints, sizes: tuple[int, ...]) -> list[Piece]:
    """One run cut where it passes from one operand into the next."""
    if source < 0:
        return [Piece(-1, 0, length)]
    pieces = []
    operand = int(np.searchsorted(ends, source, "right"))
    while length:
        start = source - (int(ends[operand]) - sizes[operand])
        n = min(length, sizes[operand] - start)
        pieces.append(Piece(operand, start, n))
        source, length, operand = source + n, length - n, operand + 1
    return pieces


def _rows(m: Map, total: int, joins: bool) -> ViewPlan:
    """Rows of the widest width that no run cuts."""
    live = m.sources >= 0
    parts = np.concatenate([m.keys, m.sources[live], m.lengths, [m.size, total]])
    width = int(np.gcd.reduce(parts))
    rows = []
    for rank in range(m.rows):
        _, source, length = m.row(rank)
        first = np.where(source < 0, -1, source // width)
        rows.append(tuple(zip(first.tolist(), (length // width).tolist(), strict=True)))
    return ViewPlan(layout=Layout.ROWS, width=width, rows=tuple(rows), joins=joins)


def _radix(m: Map, total: int, joins: bool) -> ViewPlan | None:
    """Nested arithmetic progressions: the same extents and strides on every rank, a start of its own."""
    progressions: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
    for rank in range(m.rows):
        one = _progressions(m, rank)
        if one is None or (progressions and one[1:] != progressions[0][1:]):
            return None
        progressions.append(one)
    _, extents, strides = progressions[0]
    by_stride = sorted(range(len(strides)), key=lambda i: -strides[i])
    sizes = [total] + [strides[i] for i in by_stride]
    if sizes[-1] != 1 or any(big % small for big, small in pairwise(sizes)):
        return None
    shape = tuple(big // small for big, small in pairwise(sizes))
    starts = tuple(tuple(f[0] % big // small for f in progressions) for big, small in pairwise(sizes))
    narrowed = tuple(extents[i] for i in by_stride)
    if any(max(first) + n > size for first, n, size in zip(starts, narrowed, shape, strict=True)):
        return None
    order = tuple(by_stride.index(i) for i in range(len(extents)))
    return ViewPlan(
        layout=Layout.RADIX, shape=shape, starts=starts, extents=narrowed, order=order, joins=joins
    )


def _progressions(m: Map, rank: int) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """(start, extents, strides), outermost axis first, if a rank's elements are nested progressions."""
    _, source, length = m.row(rank)
    unit = int(length[0])
    if (source < 0).any() or (length != unit).any():
        return None
    axes = [(unit, 1)] if unit > 1 else []
    index = source
    while len(index) > 1:
        step = int(index[1] - index[0])
        breaks = np.flatnonzero(np.diff(index) != step)
        extent = int(breaks[0]) + 1 if len(breaks) else len(index)
        if step <= 0 or len(index) % extent:
            return None
        rows = index.reshape(-1, extent)
        if (rows - rows[:, :1] != np.arange(extent) * step).any():
            return None
        axes.append((extent, step))
        index = rows[:, 0]
    outermost_first = list(reversed(axes or [(1, 1)]))
    return int(source[0]), tuple(e for e, _ in outermost_first), tuple(s for _, s in outermost_first)
