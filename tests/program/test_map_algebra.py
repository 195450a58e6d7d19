"""What is done with Maps is what would be done with their tables."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.maps import ZERO
from tests.program.test_maps import RANKS, tables


def on_all(table: np.ndarray) -> np.ndarray:
    return np.broadcast_to(table, (RANKS, table.shape[1]))


def moved(table: np.ndarray, data: np.ndarray) -> np.ndarray:
    """data[rank, table[rank]], zeros where the table says so."""
    rows = np.arange(len(data))[:, None]
    return np.where(table < 0, 0, data[rows, np.maximum(table, 0)])


@given(tables(), st.data())
def test_composition_is_composition_of_tables(inner: np.ndarray, data: st.DataObject) -> None:
    outer = data.draw(tables(sources=inner.shape[1]))
    m = map_algebra.compose(maps.from_table(outer), maps.from_table(inner))
    taken = on_all(inner)[np.arange(RANKS)[:, None], np.maximum(on_all(outer), 0)]
    np.testing.assert_array_equal(on_all(m.table()), np.where(on_all(outer) < 0, ZERO, taken))


@given(tables(), st.lists(st.integers(0, 12), max_size=4))
def test_split_sources_covers_every_live_element_once(table: np.ndarray, boundaries: list[int]) -> None:
    m = maps.from_table(table)
    ends = np.unique(boundaries).astype(np.int64)
    again = np.full((m.rows, m.size), ZERO)
    for row, d, s, n in zip(*map_algebra.split_sources(m, ends), strict=True):
        assert (again[row, d : d + n] == ZERO).all()
        again[row, d : d + n] = np.arange(s, s + n)
        assert not ((ends > s) & (ends < s + n)).any()
    np.testing.assert_array_equal(again, m.table())


@given(tables(), st.permutations(range(RANKS)))
def test_take_rows(table: np.ndarray, order: list[int]) -> None:
    m = map_algebra.take_rows(maps.from_table(table), order)
    np.testing.assert_array_equal(on_all(m.table()), on_all(table)[order])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=8))
def test_union_of_intervals(intervals: list[tuple[int, int, int]]) -> None:
    pieces = [(r, a, min(n, 10 - a)) for r, a, n in intervals]
    covered = np.zeros((3, 11), bool)
    for r, a, n in pieces:
        covered[r, a : a + n] = True
    row, start, length = map_algebra.union_of_intervals(*np.array(pieces).T, 10)
    again = np.zeros_like(covered)
    for r, a, n in zip(row, start, length, strict=True):
        assert not again[r, a : a + n].any()
        assert not again[r, a + n]
        again[r, a : a + n] = True
    np.testing.assert_array_equal(again, covered)


@given(tables(sources=8, size=12), st.integers(2, 4))
def test_fold_of_a_sum_of_blocks(table: np.ndarray, count: int) -> None:
    """The sum of the blocks is what `fold` says it is."""
    assume(table.shape[1] % count == 0)
    m = maps.from_table(table)
    folded = map_algebra.fold(m, count)
    blocks = on_all(table).reshape(RANKS, count, -1)
    live = (blocks >= 0).sum(1)
    if folded is None:
        assert (live > 1).any()
        assert not (blocks == blocks[:, :1]).all()
        return
    how, one = folded
    data = np.random.default_rng(0).integers(1, 100, (RANKS, 8))
    total = moved(on_all(table), data).reshape(RANKS, count, -1).sum(1)
    times = count if how == "equal" else 1
    np.testing.assert_array_equal(times * moved(on_all(one.table()), data), total)


@given(tables(sources=8))
def test_the_inverse_of_an_injective_map(table: np.ndarray) -> None:
    live = [row[row >= 0] for row in table]
    assume(all(len(np.unique(row)) == len(row) for row in live) and any(len(row) for row in live))
    layers = map_algebra.inverse_layers(maps.from_table(table), 0, 8)
    assert len(layers) == 1
    back = on_all(layers[0].table())
    for rank, row in enumerate(on_all(table)):
        for i, source in enumerate(row):
            assert source < 0 or back[rank, source] == i
        assert (back[rank] >= 0).sum() == (row >= 0).sum()


@given(tables(sources=8), st.integers(0, 5), st.integers(1, 3))
def test_the_layers_of_an_inverse_add_up_to_the_transpose(table: np.ndarray, base: int, size: int) -> None:
    m = maps.from_table(table)
    c = np.random.default_rng(1).integers(1, 100, (RANKS, m.size))
    wanted = np.zeros((RANKS, size), np.int64)
    for rank, row in enumerate(on_all(table)):
        for i, source in enumerate(row):
            if base <= source < base + size:
                wanted[rank, source - base] += c[rank, i]
    got = sum(
        (moved(on_all(layer.table()), c) for layer in map_algebra.inverse_layers(m, base, size)), 0 * wanted
    )
    np.testing.assert_array_equal(got, wanted)


def test_ragged_numbers_pieces() -> None:
    which, nth = map_algebra.ragged(np.array([2, 0, 3]))
    assert (which.tolist(), nth.tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])


@pytest.mark.parametrize(("start", "length", "pieces"), [(0, 4, [4]), (2, 4, [2, 2]), (3, 9, [1, 4, 4])])
def test_cut_at_multiples(start: int, length: int, pieces: list[int]) -> None:
    which, low, n = map_algebra.cut_at_multiples(np.array([start]), np.array([length]), 4)
    assert (n.tolist(), low[0], set(which.tolist())) == (pieces, start, {0})
