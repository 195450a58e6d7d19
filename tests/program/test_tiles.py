"""Large values of small ones: what is spread comes back, and of copies that are unlike one is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlayccl_core.program.tiles import Tiles, bits

TWO = Tiles(lanes=2, runs=((2, 6),))


@given(st.integers(1, 7), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_what_is_spread_repeats_lanes_and_folds_to_what_it_was(lanes: int, widths: list[int]) -> None:
    tiles = Tiles.of(lanes, np.array(widths))
    wide = np.arange(lanes * len(widths))
    small = wide[tiles.of_lanes()]
    large = tiles.spread(small)
    assert (len(small), len(large), tiles.atoms) == (tiles.small, tiles.large, len(widths))
    expected = [atom * lanes + e % lanes for atom, width in enumerate(widths) for e in range(width)]
    assert large.tolist() == expected
    assert [one.tolist() for one in tiles.fold(large)] == [small.tolist()] * 2
    assert [large[tiles.element(i)] for i in tiles.of_lanes()] == small.tolist()


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (None, ([1, 2, 3, 4], [1, 2, 3, 4])),
        (1, ([1, 9, 3, 4], [1, 2, 3, 4])),
        (3, ([1, 2, 3, 4], [1, 9, 3, 4])),
        (10, ([1, 2, 3, 4], [1, 2, 9, 4])),
    ],
)
def test_of_copies_that_are_unlike_two_are_told(at: int | None, told: tuple[list[float], ...]) -> None:
    """Two atoms of two lanes, three copies of each."""
    large = TWO.spread(np.array([1.0, 2.0, 3.0, 4.0]))
    assert large.tolist() == [1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4]
    if at is not None:
        large[at] = 9.0
    assert tuple(one.tolist() for one in TWO.fold(large)) == told


def test_a_copy_that_is_not_whole_counts_and_is_filled_up() -> None:
    tiles = Tiles(lanes=3, runs=((1, 8),))
    large = tiles.spread(np.array([1.0, 2.0, 3.0]))
    large[7] = 5
    assert tiles.fold(large)[1].tolist() == [1, 5, 3]


def test_what_is_no_number_in_one_copy_only_is_farthest() -> None:
    large = TWO.spread(np.array([1.0, 2.0, np.nan, 4.0]))
    assert np.array_equal(TWO.fold(large)[1], [1, 2, np.nan, 4], equal_nan=True)
    large[2], large[5] = 1e30, np.nan
    assert np.array_equal(TWO.fold(large)[1], [1, np.nan, np.nan, 4], equal_nan=True)


def test_bits_differ_where_an_element_does_and_a_zero_has_a_sign() -> None:
    x = np.array([0.0, 1.0])
    assert len({bits(x), bits(np.array([-0.0, 1.0])), bits(np.array([0.0, np.nextafter(1, 2)]))}) == 3
    assert bits(x) == bits(np.array([0.0, 1.0]))
