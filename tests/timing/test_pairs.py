"""Which pairs are timed, and how the stamps of a launch become times of pairs."""

from itertools import combinations

import numpy as np
import pytest

from overlayccl_core.timing.pairs import MOST_ALONE, _by_pair, matchings


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 10])
def test_few_ranks_time_all_pairs_alone(ranks: int) -> None:
    made = matchings(ranks)
    assert [pair for (pair,) in made] == list(combinations(range(ranks), 2)) and len(made) <= MOST_ALONE


@pytest.mark.parametrize("ranks", [11, 12, 33, 224])
def test_of_more_ranks_disjoint_pairs_are_timed_at_once(ranks: int) -> None:
    made = matchings(ranks)
    assert len(made) <= 3 * (ranks - 1).bit_length()
    for pairs in made:
        members = [rank for pair in pairs for rank in pair]
        assert len(set(members)) == len(members) and set(members) <= set(range(ranks))
        assert all(one < other for one, other in pairs)
    every = {pair for pairs in made for pair in pairs}
    assert {(rank, rank + 1) for rank in range(ranks - 1)} < every
    assert made == matchings(ranks) != matchings(ranks, seed=1)


def test_a_pairs_time_is_that_of_its_own_ranks_whatever_the_others_did() -> None:
    """From the later start to the later end, over the calls. An unfinished round does not count."""
    stamps = np.array(
        [
            [[[100, 5100], [300, 7300], [9000, 9001]], [[1, 2], [10, 4010], [20, 4020]]],
            [[[100, 3100], [100, 3000], [100, 0]], [[1, 2], [1, 2], [1, 2]]],
        ]
    )
    us = _by_pair(stamps, (2, 1), [((0, 1),), ((1, 2),)], 3)
    assert us.shape == (1, 3, 3) and us[0, 0, 1] == us[0, 1, 0] == 3.5 and us[0, 1, 2] == 4.0
    assert np.isnan(us[0, 0, 2]) and np.isnan(us[0].diagonal()).all()


def test_a_pair_in_two_matchings_has_the_less_disturbed_time() -> None:
    stamps = np.array([[[[0, 4000], [0, 5000]], [[0, 9000], [0, 9000]]]]) + 1
    for both in (stamps, stamps[:, ::-1]):
        assert _by_pair(both, (1, 1), [((0, 1),), ((0, 1),)], 2)[0, 0, 1] == 5.0
