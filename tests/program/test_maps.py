"""Maps hold what a table holds, in one normal form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from overlayccl_core.program import maps
from overlayccl_core.program.maps import ZERO, Map, TooRagged

RANKS = 3


@st.composite
def tables(draw: st.DrawFn, sources: int = 12, size: int = 10) -> np.ndarray:
    """int[1 or RANKS, 1..size] of source indices, with runs more often than chance makes them."""
    rows, width = draw(st.sampled_from([1, RANKS])), draw(st.integers(1, size))
    table = draw(hnp.arrays(np.int64, (rows, width), elements=st.integers(-1, sources - 1)))
    if draw(st.booleans()):
        table = np.minimum(np.cumsum(np.ones_like(table), axis=1) + table[:, :1], sources - 1)
    return table


@given(tables())
def test_a_map_is_its_table(table: np.ndarray) -> None:
    m = maps.from_table(table)
    np.testing.assert_array_equal(np.broadcast_to(m.table(), table.shape), table)
    np.testing.assert_array_equal(np.concatenate([m.table(r, r + 1) for r in range(m.rows)]), m.table())


@given(tables())
def test_equal_tables_have_equal_digests(table: np.ndarray) -> None:
    m = maps.from_table(table)
    assert maps.from_table(np.repeat(table[:1], RANKS, 0)).digest == maps.from_table(table[:1]).digest
    assert Map(m.rows, m.size, *_cut_in_two(m)).digest == m.digest
    assert len(m.row_digests) == m.rows


@given(tables())
def test_runs_are_maximal_and_end_at_the_row(table: np.ndarray) -> None:
    m = maps.from_table(table)
    runs = 0
    for row in m.table():
        for i, source in enumerate(row):
            before = row[i - 1] if i else None
            goes_on = before is not None and (
                source == before == ZERO or (source == before + 1 and before >= 0)
            )
            runs += not goes_on
    assert m.runs == runs


def _cut_in_two(m: Map) -> tuple[np.ndarray, np.ndarray]:
    """The same runs, the first longer one of them in two pieces."""
    long = np.flatnonzero(m.lengths > 1)
    if len(long) == 0:
        return m.keys, m.sources
    i = long[0]
    source = m.sources[i] + 1 if m.sources[i] >= 0 else ZERO
    return np.insert(m.keys, i + 1, m.keys[i] + 1), np.insert(m.sources, i + 1, source)


@given(tables())
def test_rows_and_spread_say_the_same(table: np.ndarray) -> None:
    m = maps.from_table(table)
    full = np.broadcast_to(table, (RANKS, table.shape[1]))
    for rank in range(RANKS):
        for d, s, n in zip(*m.row(rank), strict=True):
            expected = np.arange(s, s + n) if s >= 0 else np.full(n, ZERO)
            np.testing.assert_array_equal(full[rank, d : d + n], expected)
    keys, sources = m.spread(RANKS)
    np.testing.assert_array_equal(
        np.broadcast_to(Map(RANKS, m.size, keys, sources).table(), full.shape), full
    )


def test_builders() -> None:
    x = np.arange(100, 124).reshape(2, 3, 4)
    assert (x.ravel()[maps.permuted((2, 3, 4), (1, 0, 2)).table()[0]] == x.transpose(1, 0, 2).ravel()).all()
    assert maps.permuted((2, 3, 4), (1, 0, 2)).runs == 6
    assert maps.copies(3, 2).table().tolist() == [[0, 1, 2, 0, 1, 2]]
    assert maps.window([1, 0], 2).table().tolist() == [[1, 2], [0, 1]]
    assert maps.on_ranks([1, 0], 2).table().tolist() == [[0, 1], [ZERO, ZERO]]
    assert maps.leading([2, 0, 1], 2).table().tolist() == [[0, 1], [ZERO, ZERO], [0, ZERO]]
    assert maps.leading([1, 1], 2).table().tolist() == [[0, ZERO]]
    assert maps.zeros(2).table().tolist() == [[ZERO, ZERO]]
    assert maps.identity(5).is_identity(5)
    assert not maps.identity(5).is_identity(6)
    joined = np.concatenate([x, x + 100], axis=1).ravel()
    source = np.concatenate([x.ravel(), x.ravel() + 100])
    assert (source[maps.concatenated(((2, 3, 4), (2, 3, 4)), 1).table()[0]] == joined).all()


@given(tables(size=4), st.integers(1, 3), st.integers(1, 3))
def test_along_an_axis(table: np.ndarray, outer: int, inner: int) -> None:
    x = np.arange(outer * 12 * inner).reshape(outer, 12, inner)
    m = maps.along_axis(maps.from_table(table), outer, 12, inner)
    for rank, row in enumerate(np.broadcast_to(table, (RANKS, table.shape[1]))):
        wanted = np.where(row[None, :, None] < 0, ZERO, x[:, np.maximum(row, 0), :]).ravel()
        np.testing.assert_array_equal(np.broadcast_to(m.table(), (RANKS, m.size))[rank], wanted)


@given(st.lists(tables(), min_size=1, max_size=3))
def test_side_by_side(parts: list[np.ndarray]) -> None:
    m = maps.side_by_side([maps.from_table(t) for t in parts])
    wanted = np.concatenate([np.broadcast_to(t, (RANKS, t.shape[1])) for t in parts], axis=1)
    np.testing.assert_array_equal(np.broadcast_to(m.table(), wanted.shape), wanted)


def test_pieces_leave_zeros_between_them() -> None:
    m = maps.from_pieces(2, 5, np.array([6, 1]), np.array([3, 0]), np.array([2, 3]))
    assert m.table().tolist() == [[ZERO, 0, 1, 2, ZERO], [ZERO, 3, 4, ZERO, ZERO]]


def test_a_ragged_layout_is_refused_before_it_is_made() -> None:
    with pytest.raises(TooRagged, match="separate runs"):
        maps.permuted((2048, 4096), (1, 0))
