"""Plans of views: the cheapest form that a map allows.

In order of preference: an alias of one operand, zeros, k copies, a few pieces joined, a mixed radix form (reshape,
narrow, permute), rows picked by a table. The emitter prints the plan, the cost model prices it.

A library with compiled graphs needs one graph for all ranks. Its plans are `uniform`: ranks with different slices
pick rows by tables of one shape instead.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node

MOST_RUNS_KEPT = 1024  # of a map with a cached plan: larger ones would fill the memory
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
    """One form of a view; `layout` decides which fields count.

    Attributes:
        map, sizes: Of the view and of its operands. `pieces` and `rows` are written out from them on demand: at
            many ranks they are large, and few plans are printed.
        shape, starts, extents, order: Reshape the joined operands to `shape`, narrow axis a to extents[a] elements
            from starts[a][row] on, permute the axes by `order`.
    """

    layout: Layout
    map: Map
    sizes: tuple[int, ...]
    operand: int = -1  # the aliased operand
    repeat: int = 1  # copies of the joined operands
    shape: tuple[int, ...] = ()
    starts: tuple[tuple[int, ...], ...] = ()
    extents: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    width: int = 1  # elements of a row of the joined operands, for rows picked by a table
    joins: bool = False  # several operands are laid end to end first

    @property
    def is_alias(self) -> bool:
        """True if nothing is copied."""
        return self.layout is Layout.ALIAS

    @property
    def slices_differ(self) -> bool:
        """True if ranks take different slices; the printed code then depends on the rank."""
        if self.layout in (Layout.ALIAS, Layout.PIECES):
            return self.map.rows > 1
        return any(len(set(first)) > 1 for first in self.starts)

    @property
    def pieces(self) -> tuple[tuple[Piece, ...], ...]:
        """One tuple for all ranks alike, or one per rank (of an alias: of one piece each, all equally long)."""
        ends = np.cumsum(self.sizes)
        return tuple(
            tuple(
                piece
                for start, n in zip(source.tolist(), length.tolist(), strict=True)
                for piece in _cut(start, n, ends, self.sizes)
            )
            for _, source, length in map(self.map.row, range(self.map.rows))
        )

    @property
    def rows(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For all ranks alike, or per rank: runs of rows of the joined operands, (first row or -1, rows)."""
        return tuple(
            tuple(
                zip(
                    np.where(source < 0, -1, source // self.width).tolist(),
                    (length // self.width).tolist(),
                    strict=True,
                )
            )
            for _, source, length in map(self.map.row, range(self.map.rows))
        )


def view_plan(node: Node, *, uniform: bool = False) -> ViewPlan:
    """Return the plan of a view node. uniform: ranks differ in the entries of their tables only."""
    name = "uniform_plan" if uniform else "view_plan"
    plan: ViewPlan | None = node.facts.get(name)
    if plan is None:
        sizes = tuple(x.size for x in node.operands)
        plan = (_kept if node.map.runs <= MOST_RUNS_KEPT else _plan)(node.map, sizes)
        if uniform and plan.slices_differ:
            plan = _rows(node.map, sizes)
        node.facts[name] = plan
    return plan


def _plan(m: Map, sizes: tuple[int, ...]) -> ViewPlan:
    new = partial(ViewPlan, map=m, sizes=sizes)
    if not sizes:
        return new(layout=Layout.ZEROS)
    total, joins = sum(sizes), len(sizes) > 1
    most = _most_pieces(m, sizes)
    if most == 1 and (operand := _aliased(m, sizes)) is not None:
        return new(layout=Layout.ALIAS, operand=operand)
    if (k := _repeats(m, total)) > 1:
        return new(layout=Layout.REPEAT, repeat=k, joins=joins)
    in_pieces = most <= max(MOST_PIECES, len(sizes))
    if in_pieces and (joins or most <= FEW_PIECES):
        return new(layout=Layout.PIECES)
    if radix := _radix(m, total):
        shape, starts, extents, order = radix
        return new(layout=Layout.RADIX, shape=shape, starts=starts, extents=extents, order=order, joins=joins)
    return new(layout=Layout.PIECES) if in_pieces else _rows(m, sizes)


_kept = lru_cache(maxsize=4096)(_plan)


def _rows(m: Map, sizes: tuple[int, ...]) -> ViewPlan:
    """Rows picked by a table, a form for every view."""
    return ViewPlan(layout=Layout.ROWS, map=m, sizes=sizes, width=_width(m, sum(sizes)), joins=len(sizes) > 1)


def _repeats(m: Map, total: int) -> int:
    whole = m.rows == 1 and m.size == m.runs * total and bool((m.sources == 0).all())
    return m.runs if whole else 0


def _most_pieces(m: Map, sizes: tuple[int, ...]) -> int:
    """The largest number of pieces in a row, each of one operand or of zeros."""
    ends = np.cumsum(sizes)
    within = np.searchsorted(ends, m.sources + m.lengths, "left") - np.searchsorted(ends, m.sources, "right")
    pieces = np.where(m.sources < 0, 1, within + 1)
    return int(np.bincount(m.keys // max(m.size, 1), weights=pieces).max())


def _aliased(m: Map, sizes: tuple[int, ...]) -> int | None:
    """The one operand read by all rows; None if some row is zeros, or of another operand."""
    operands = np.searchsorted(np.cumsum(sizes), m.sources, "right")
    return int(operands[0]) if (m.sources >= 0).all() and (operands == operands[0]).all() else None


def _cut(source: int, length: int, ends: Ints, sizes: tuple[int, ...]) -> list[Piece]:
    """Cut one run at the ends of operands."""
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


def _width(m: Map, total: int) -> int:
    """Width of the widest rows that no run cuts."""
    parts = (m.keys, m.sources[m.sources >= 0], m.lengths, [m.size, total])
    return int(np.gcd.reduce([np.gcd.reduce(part) for part in parts if len(part)]))


Radix = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]]


def _radix(m: Map, total: int) -> Radix | None:
    """(shape, starts, extents, order) of nested arithmetic progressions: the same extents and strides on every
    rank, a start of its own."""
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
    return shape, starts, narrowed, order


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
