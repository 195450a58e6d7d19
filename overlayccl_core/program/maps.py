"""Maps: the source of every element of a value, on every rank.

A layout operation only moves elements, so it is a function on flat element indices:

    result[rank][i] = operands[rank][map[rank][i]]        (or 0 for ZERO)

Such functions are shifts on long stretches, so a Map keeps runs, not elements: an activation of (1, 2048, 4096)
cut in two is two runs. A run of row r starting at destination d is stored under the key r * size + d; the runs of
all ranks form ONE sorted array, so one `searchsorted` answers for all ranks. Sources index the operands laid end
to end; a run may continue from one operand into the next, so a concatenation is one run.

This file: the Map and the ways to build one. `map_algebra.py`: operations on Maps.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlayccl_core.program.kinds import Rejected

Ints = NDArray[np.int64]

ZERO = -1
MAX_RUNS = 2**21  # 32 MiB of keys and sources: no operation on a larger map would be quick


class TooRagged(Rejected):
    """A map of more runs than MAX_RUNS."""


def check_runs(runs: int) -> None:
    """Raise TooRagged before a map of too many runs is allocated."""
    if runs > MAX_RUNS:
        raise TooRagged(
            f"a layout of {runs} separate runs (limit {MAX_RUNS}): move longer stretches of consecutive elements"
        )


class Map:
    """The source of every element of a value, on every rank, as maximal runs, with one row if all rows agree.

    Compared by content, so caches may have it in their keys.

    Attributes:
        rows: 1 (all ranks alike) or N.
        size: Elements of the result on a rank.
        keys: int64[runs], row * size + first destination, sorted; every row starts a run at 0.
        sources: int64[runs], first source index, or ZERO.
    """

    __slots__ = ("_digest", "_row_digests", "keys", "rows", "size", "sources")

    def __init__(self, rows: int, size: int, keys: ArrayLike, sources: ArrayLike) -> None:
        k, s = np.asarray(keys, np.int64), np.asarray(sources, np.int64)
        k, s = _maximal_runs(rows, size, k, s)
        rows, k, s = _collapse_rows(rows, size, k, s)
        self.rows: int = rows
        self.size: int = size
        self.keys: Ints = k
        self.sources: Ints = s
        self._digest: bytes | None = None
        self._row_digests: list[bytes] | None = None

    @property
    def runs(self) -> int:
        """Runs over all rows."""
        return len(self.keys)

    @property
    def lengths(self) -> Ints:
        """int64[runs]: elements in each run."""
        return run_lengths(self.keys, self.rows * self.size)

    @property
    def digest(self) -> bytes:
        """Content digest: equal Maps, equal digests."""
        if self._digest is None:
            head = f"{self.rows},{self.size};".encode()
            self._digest = hashlib.blake2b(
                head + self.keys.tobytes() + self.sources.tobytes(), digest_size=16
            ).digest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def row_digests(self) -> list[bytes]:
        """One digest per row: equal digests, the same map on those ranks."""
        if self._row_digests is None:
            first = np.searchsorted(self.keys, np.arange(self.rows + 1) * self.size).tolist()
            local = self.keys % max(self.size, 1)
            self._row_digests = [
                hashlib.blake2b(local[a:b].tobytes() + self.sources[a:b].tobytes(), digest_size=12).digest()
                for a, b in pairwise(first)
            ]
        return self._row_digests

    def is_identity(self, source_size: int) -> bool:
        """True if the result is the (only) operand itself."""
        return self.rows == 1 and self.runs == 1 and self.sources[0] == 0 and self.size == source_size

    def spread(self, rows: int) -> tuple[Ints, Ints]:
        """(keys, sources) of the same map written out for `rows` rows."""
        if self.rows == rows:
            return self.keys, self.sources
        check_runs(rows * self.runs)
        keys = (np.arange(rows)[:, None] * self.size + self.keys).ravel()
        return keys, np.tile(self.sources, rows)

    def row(self, rank: int) -> tuple[Ints, Ints, Ints]:
        """(destination, source, length) arrays of one rank."""
        r = 0 if self.rows == 1 else rank
        a, b = np.searchsorted(self.keys, [r * self.size, (r + 1) * self.size])
        keys = self.keys[a:b] - r * self.size
        return keys, self.sources[a:b], run_lengths(keys, self.size)

    def table(self, first: int = 0, last: int | None = None) -> Ints:
        """int64[last - first, size]: these rows written out, one source index per element, ZERO for none."""
        last = self.rows if last is None else last
        a, b = np.searchsorted(self.keys, [first * self.size, last * self.size])
        keys, sources = self.keys[a:b], self.sources[a:b]
        lengths = run_lengths(keys, last * self.size)
        index = np.arange(first * self.size, last * self.size)
        index += np.repeat(np.where(sources < 0, 0, sources - keys), lengths)
        if (sources < 0).any():
            index[np.repeat(sources < 0, lengths)] = ZERO
        return index.reshape(last - first, self.size)


def run_lengths(keys: Ints, end: int) -> Ints:
    """Length of each run: the distance to the next key; the last one ends at `end`."""
    return np.diff(keys, append=end)


def _maximal_runs(rows: int, size: int, keys: Ints, sources: Ints) -> tuple[Ints, Ints]:
    """Join neighbouring runs of a row if one continues the other."""
    if len(keys) <= 1:
        return keys, sources
    before, after = sources[:-1], sources[1:]
    joins = (after == before + keys[1:] - keys[:-1]) & (before >= 0) & (after >= 0)
    joins |= (after < 0) & (before < 0)
    if rows > 1:
        joins &= keys[1:] % size != 0
    if not joins.any():
        return keys, sources
    keep = np.append(True, ~joins)
    return keys[keep], sources[keep]


def _collapse_rows(rows: int, size: int, keys: Ints, sources: Ints) -> tuple[int, Ints, Ints]:
    """One row is enough when all rows are alike."""
    if rows == 1 or len(keys) % rows:
        return rows, keys, sources
    local = (keys % size).reshape(rows, -1)
    by_row = sources.reshape(rows, -1)
    if (local == local[0]).all() and (by_row == by_row[0]).all():
        return 1, local[0].copy(), by_row[0].copy()
    return rows, keys, sources


# ------------------------------------------------------------------------------------------- building
@lru_cache(maxsize=512)
def identity(size: int) -> Map:
    """Every element from its own place."""
    return Map(1, size, [0], [0])


@lru_cache(maxsize=512)
def zeros(size: int) -> Map:
    """Nothing but zeros."""
    return Map(1, size, [0], [ZERO])


@lru_cache(maxsize=512)
def copies(size: int, count: int) -> Map:
    """`count` equal copies, one after another."""
    check_runs(count)
    return Map(1, size * count, np.arange(count) * size, np.zeros(count, np.int64))


def window(starts: ArrayLike, length: int) -> Map:
    """`length` elements from starts[r] on, on each rank r (a scalar: on all ranks alike)."""
    first = np.atleast_1d(np.asarray(starts, np.int64))
    return Map(len(first), length, np.arange(len(first)) * length, first)


def on_ranks(mask: ArrayLike, size: int) -> Map:
    """The operand itself on the ranks in `mask`, zeros on the others."""
    return leading(np.where(np.asarray(mask, bool), size, 0), size)


def leading(counts: ArrayLike, size: int) -> Map:
    """The first counts[r] elements of the operand on each rank r, zeros behind them."""
    kept = np.asarray(counts, np.int64)
    row = np.flatnonzero(kept)
    return from_pieces(len(kept), size, row * size, np.zeros_like(row), kept[row])


def from_table(table: ArrayLike) -> Map:
    """A Map from source indices written out: int[size] or int[rows, size], ZERO for none."""
    full = np.atleast_2d(np.asarray(table, np.int64))
    return Map(full.shape[0], full.shape[1], np.arange(full.size), full.ravel())


def from_pieces(rows: int, size: int, keys: Ints, sources: Ints, lengths: Ints) -> Map:
    """The map of disjoint pieces in any order; uncovered elements are ZERO."""
    order = np.argsort(keys, kind="stable")
    keys, sources, lengths = keys[order], sources[order], lengths[order]
    gap_starts = np.concatenate([np.arange(rows) * size, keys + lengths])
    all_keys = np.concatenate([keys, gap_starts])
    all_sources = np.concatenate([sources, np.full(len(gap_starts), ZERO)])
    order = np.lexsort((all_sources < 0, all_keys))  # a piece wins over a gap at the same key
    all_keys, all_sources = all_keys[order], all_sources[order]
    keep = np.append(True, all_keys[1:] != all_keys[:-1]) & (all_keys < rows * size)
    return Map(rows, size, all_keys[keep], all_sources[keep])


def along_axis(axis_map: Map, outer: int, extent: int, inner: int) -> Map:
    """A Map of one axis of length `extent`, applied to a tensor (outer, extent, inner)."""
    check_runs(axis_map.runs * outer)
    row, local = np.divmod(axis_map.keys, axis_map.size)
    o = np.arange(outer)
    keys = (((row[:, None] * outer + o) * axis_map.size + local[:, None]) * inner).ravel()
    moved = (o * extent + axis_map.sources[:, None]) * inner
    sources = np.where(axis_map.sources[:, None] < 0, ZERO, moved).ravel()
    order = np.argsort(keys, kind="stable")
    return Map(axis_map.rows, outer * axis_map.size * inner, keys[order], sources[order])


@lru_cache(maxsize=1024)
def sliced(starts: tuple[int, ...], length: int, outer: int, extent: int, inner: int) -> Map:
    """`length` elements of the axis of a tensor (outer, extent, inner), from starts[r] on."""
    return along_axis(window(starts, length), outer, extent, inner)


@lru_cache(maxsize=1024)
def padded(before: tuple[int, ...], total: int, outer: int, extent: int, inner: int) -> Map:
    """Zeros around the axis of a tensor (outer, extent, inner): before[r] in front, `total` in all."""
    rows, first = len(before), np.array(before, np.int64)
    keys = np.arange(rows) * total + first
    axis = from_pieces(rows, total, keys, np.zeros(rows, np.int64), np.full(rows, extent))
    return along_axis(axis, outer, extent, inner)


@lru_cache(maxsize=256)
def permuted(shape: tuple[int, ...], order: tuple[int, ...]) -> Map:
    """The axes of a tensor in another order; unmoved trailing axes form the runs."""
    lead = len(order)
    while lead > 0 and order[lead - 1] == lead - 1:
        lead -= 1
    inner, count = prod(shape[lead:]), prod(shape[:lead])
    check_runs(count)
    index = np.arange(count).reshape(shape[:lead]).transpose(order[:lead]).ravel()
    return Map(1, count * inner, np.arange(count) * inner, index * inner)


@lru_cache(maxsize=256)
def concatenated(shapes: tuple[tuple[int, ...], ...], dim: int) -> Map:
    """Tensors joined along an axis; the operands lie end to end in the source space."""
    outer, inner = prod(shapes[0][:dim]), prod(shapes[0][dim + 1 :])
    if outer == 1:
        return identity(sum(s[dim] for s in shapes) * inner)
    check_runs(outer * len(shapes))
    widths = np.array([s[dim] for s in shapes], np.int64) * inner
    position = np.cumsum(widths) - widths
    o = np.arange(outer)[:, None]
    keys = o * widths.sum() + position
    sources = outer * position + o * widths
    return Map(1, outer * int(widths.sum()), keys.ravel(), sources.ravel())


def side_by_side(parts: Sequence[Map]) -> Map:
    """The results of several maps over the SAME operands, one after another."""
    rows = max(m.rows for m in parts)
    size = sum(m.size for m in parts)
    check_runs(sum(m.runs * (rows // m.rows) for m in parts))
    keys, sources, position = [], [], 0
    for m in parts:
        k, s = m.spread(rows)
        keys.append(k // m.size * size + position + k % m.size if rows > 1 else k + position)
        sources.append(s)
        position += m.size
    joined = np.concatenate(keys)
    if rows == 1:
        return Map(1, size, joined, np.concatenate(sources))
    order = np.argsort(joined, kind="stable")
    return Map(rows, size, joined[order], np.concatenate(sources)[order])
