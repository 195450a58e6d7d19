"""Operations on Maps: composition, cutting, inversion, folding of sums."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from overlayccl_core.program import effort
from overlayccl_core.program.maps import ZERO, Ints, Map, check_runs, from_pieces, run_lengths

_MOST_STRETCHES = 2**18  # of a narrowed sum: beyond this, narrowing costs more than adding


def ragged(counts: Ints) -> tuple[Ints, Ints]:
    """`(which, nth)` of sum(counts) pieces: `counts[i]` pieces of each i, numbered from 0."""
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)


def compose(outer: Map, inner: Map) -> Map:
    """First `inner`, then `outer`: outer's sources are inner's destinations."""
    rows = max(outer.rows, inner.rows)
    keys, sources = outer.spread(rows)
    lengths = run_lengths(keys, rows * outer.size)
    base = keys // outer.size * inner.size if inner.rows > 1 else 0
    live = sources >= 0
    begin = np.where(live, sources + base, 0)
    first = np.searchsorted(inner.keys, begin, "right") - 1
    last = np.searchsorted(inner.keys, begin + lengths, "left")
    count = np.where(live, last - first, 1)
    check_runs(int(count.sum()))
    run, nth = ragged(count)
    piece = first[run] + nth  # inner run of each piece
    start = np.maximum(inner.keys[piece], begin[run])
    source = inner.sources[piece]
    moved = np.where(live[run] & (source >= 0), source + start - inner.keys[piece], ZERO)
    placed = np.where(live[run], keys[run] + start - begin[run], keys[run])
    return Map(rows, outer.size, placed, moved)


def split_sources(m: Map, boundaries: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Cut the runs of m at the sorted source `boundaries`.

    Returns:
        Row, destination, source, length of every piece other than ZERO.
    """
    live = m.sources >= 0
    keys, sources, lengths = m.keys[live], m.sources[live], m.lengths[live]
    first = np.searchsorted(boundaries, sources, "right")
    last = np.searchsorted(boundaries, sources + lengths, "left")
    count = last - first + 1
    run, nth = ragged(count)
    padded = np.append(boundaries, 0)
    start = np.where(nth == 0, sources[run], padded[np.minimum(first[run] + nth - 1, len(boundaries))])
    inside = padded[np.minimum(first[run] + nth, len(boundaries))]
    stop = np.where(nth == count[run] - 1, (sources + lengths)[run], inside)
    destination = keys[run] + start - sources[run]
    return destination // m.size, destination % m.size, start, stop - start


def take_rows(m: Map, order: ArrayLike) -> Map:
    """The map with row order[r] of m as its row r."""
    if m.rows == 1:
        return m
    chosen = np.asarray(order, np.int64)
    first = np.searchsorted(m.keys, chosen * m.size)
    count = np.searchsorted(m.keys, (chosen + 1) * m.size) - first
    row, nth = ragged(count)
    index = first[row] + nth
    return Map(len(chosen), m.size, row * m.size + m.keys[index] % m.size, m.sources[index])


def union_of_intervals(row: Ints, start: Ints, length: Ints, span: int) -> tuple[Ints, Ints, Ints]:
    """Sorted, disjoint (row, start, length) covering the same positions, all below `span`."""
    if not len(row):
        return row, start, length
    wide = span + 1  # keeps the end of one row from touching the start of the next
    begin = row * wide + start
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    reach = np.maximum.accumulate(begin + length[order])
    first = np.flatnonzero(np.append(True, begin[1:] > reach[:-1]))
    last = np.append(first[1:] - 1, len(begin) - 1)
    return begin[first] // wide, begin[first] % wide, reach[last] - begin[first]


def cut_at_multiples(start: Ints, length: Ints, block: int) -> tuple[Ints, Ints, Ints]:
    """The same positions, cut at multiples of `block`: (number of the interval, start, length)."""
    count = (start + length - 1) // block - start // block + 1
    pieces = int(count.sum())
    check_runs(pieces)
    effort.spend(pieces)
    piece, nth = ragged(count)
    low = np.maximum(start[piece], (start[piece] // block + nth) * block)
    high = np.minimum((start + length)[piece], (start[piece] // block + nth + 1) * block)
    return piece, low, high - low


def _in_blocks(m: Map, size: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """(row, block, place in the block, source, length) of m's live runs, cut at blocks of `size`."""
    live = m.sources >= 0
    piece, low, length = cut_at_multiples(m.keys[live], m.lengths[live], size)
    source = m.sources[live][piece] + low - m.keys[live][piece]
    return low // m.size, low % m.size // size, low % size, source, length


Folded = tuple[Literal["equal", "disjoint"], Map] | None


def fold(m: Map, count: int) -> Folded:
    """Turn the sum of a view's `count` blocks into a layout, if it is no real sum.

    Returns:
        ("equal", the map of one block), ("disjoint", the map of the sum, every element from at most one block), or
        None.
    """
    size = m.size // count
    if (m.sources < 0).all():
        return "disjoint", Map(1, size, [0], [ZERO])
    row, block, low, source, length = _in_blocks(m, size)
    place = row * size + low
    order = np.argsort(place, kind="stable")
    if (place[order][1:] >= (place + length)[order][:-1]).all():
        return "disjoint", from_pieces(m.rows, size, place, source, length)
    order = np.lexsort((place, block))
    if len(order) % count == 0:
        columns = np.stack([place, source, length])[:, order].reshape(3, count, -1)
        if (columns == columns[:, :1]).all():
            return "equal", from_pieces(m.rows, size, *columns[:, 0])
    return None


def narrowed(m: Map, count: int) -> tuple[Map, int, Map] | None:
    """Narrow the sum of a view's `count` blocks to the elements with several terms; terms keep their order.

    Returns:
        (map of the elements with several terms on some rank, its number of blocks, map of the result), or None if
        everything is to be added or it would be too ragged. The last map reads [the sum of the first, m's
        operands].
    """
    size = m.size // count
    if (m.sources >= 0).all():
        return None
    row, block, low, source, length = _in_blocks(m, size)
    cuts = np.unique(np.concatenate([[0, size], low, low + length]))
    first = np.searchsorted(cuts, low)
    stretches = np.searchsorted(cuts, low + length) - first
    if int(stretches.sum()) > _MOST_STRETCHES:
        return None
    piece, nth = ragged(stretches)
    at = first[piece] + nth  # index of the stretch, between two cuts, of each part of a piece
    source, row, block = source[piece] + cuts[at] - low[piece], row[piece], block[piece]
    order = np.lexsort((block, at, row))
    at, source, row = at[order], source[order], row[order]
    cell = row * len(cuts) + at
    term = np.arange(len(cell)) - np.searchsorted(cell, cell)
    terms = int(term.max()) + 1
    several = np.isin(np.arange(len(cuts) - 1), at[term > 0])
    if several.all() and terms == count:
        return None
    width = np.diff(cuts)
    place = np.cumsum(width * several) - width * several
    dense = int((width * several).sum())
    added = several[at]
    keys = row * terms * dense + term * dense + place[at]
    packed = from_pieces(m.rows, terms * dense, keys[added], source[added], width[at][added])
    rows, summed = np.meshgrid(np.arange(m.rows), np.flatnonzero(several), indexing="ij")
    back = from_pieces(
        m.rows,
        size,
        np.concatenate([(rows * size + cuts[summed]).ravel(), (row * size + cuts[at])[~added]]),
        np.concatenate([place[summed].ravel(), dense + source[~added]]),
        np.concatenate([width[summed].ravel(), width[at][~added]]),
    )
    return packed, terms, back


def inverse_layers(m: Map, base: int, size: int) -> list[Map]:
    """Maps from m's elements back to those of the operand at [base, base + size).

    An operand element read k times by m appears in the first k layers, once in each; the transpose of m is the sum
    of the layers.
    """
    row, d, s, n = split_sources(m, np.array([base, base + size]))
    mine = (s >= base) & (s < base + size)
    row, d, s, n = row[mine], d[mine], s[mine] - base, n[mine]
    if len(s) == 0:
        return []
    cuts = np.unique(np.concatenate([[0, size], s, s + n]))
    first = np.searchsorted(cuts, s)  # cut the pieces alike: then two are equal or disjoint
    count = np.searchsorted(cuts, s + n) - first
    check_runs(int(count.sum()))
    piece, nth = ragged(count)
    at = first[piece] + nth
    source = d[piece] + cuts[at] - s[piece]
    key = row[piece] * size + cuts[at]
    order = np.lexsort((source, key))
    key, source, length = key[order], source[order], (cuts[at + 1] - cuts[at])[order]
    layer = np.arange(len(key)) - np.searchsorted(key, key)
    return [
        from_pieces(m.rows, size, key[layer == k], source[layer == k], length[layer == k])
        for k in range(int(layer.max()) + 1)
    ]
