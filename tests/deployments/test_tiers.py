"""Tiers in planted times of pairs: found, told from noise, and compared with declared ones."""

from collections.abc import Sequence

import numpy as np
import pytest

from overlayccl_core.deployments.tiers import (
    FoundTiers,
    Rounds,
    contradiction,
    is_nearer,
    least,
    reach,
    slow_pairs,
)
from overlayccl_core.timing.pairs import matchings

ROUNDS = 12


def planted(
    sizes: Sequence[int], us: Sequence[float], *, order: Sequence[int] | None = None, seed: int = 0
) -> Rounds:
    """Times of pairs, those of a tier alike but for noise: half of them take up to ten times as long.

    Args:
        order: The rank at each place of the tiers; None: by rank.
    """
    ranks, random = sizes[-1], np.random.default_rng(seed)
    places = np.argsort(order) if order is not None else np.arange(ranks)
    times = np.array(us)[reach(ranks, sizes)][np.ix_(places, places)]
    busy = random.random((ROUNDS, ranks, ranks)) < 0.5
    noise = random.lognormal(0.0, 0.05, busy.shape) * np.where(busy, random.uniform(1, 10, busy.shape), 1.0)
    rounds = np.triu(times * noise, 1)
    rounds = rounds + rounds.transpose(0, 2, 1)
    rounds[:, range(ranks), range(ranks)] = np.nan
    return rounds


SHAPES = {
    "2 hosts of 2": ((2, 4), (250, 2200)),
    "4 hosts of 2": ((2, 8), (250, 22000)),
    "7 hosts of 1": ((7,), (22000,)),
    "one host": ((4,), (300,)),
    "a pair": ((2,), (300,)),
    "islands, hosts, racks": ((4, 8, 32), (100, 400, 1500)),
    "3 hosts of 5": ((5, 15), (250, 600)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_planted_tiers_are_found_in_noise(shape: str, seed: int) -> None:
    sizes, us = SHAPES[shape]
    rounds = planted(sizes, us, seed=seed)
    found = FoundTiers.of(rounds)
    assert found.sizes == sizes and not found.scattered and not found.uneven
    assert contradiction(least(rounds), found.sizes, sizes) == ""


@pytest.mark.parametrize(("ranks", "size"), [(12, 4), (24, 6), (224, 32)])
def test_a_sample_of_the_pairs_is_enough(ranks: int, size: int) -> None:
    rounds = planted((size, ranks), (100, 1000))
    known = np.zeros((ranks, ranks), bool)
    for pair in (pair for one in matchings(ranks) for pair in one):
        known[pair] = known[pair[::-1]] = True
    assert known.sum() / 2 <= 1.5 * ranks * (ranks - 1).bit_length()
    sampled = np.where(known, rounds, np.nan)
    assert FoundTiers.of(sampled).sizes == (size, ranks)
    assert contradiction(least(sampled), (size, ranks), (ranks,))


def test_a_gap_that_half_of_the_rounds_lack_is_noise() -> None:
    """Two pairs were quick once, in one round of all: as a gap it is wide."""
    rounds = planted((4,), (1000,))
    for pair in ((0, 1), (1, 0), (2, 3), (3, 2)):
        rounds[(4, *pair)] = 100
    assert is_nearer(100, float(np.nanmin(rounds[3])))
    assert FoundTiers.of(rounds).sizes == (4,)


def test_a_slow_pair_tears_no_unit_apart_and_is_told() -> None:
    rounds = planted((4, 8), (200, 2000))
    rounds[:, 1, 2] = rounds[:, 2, 1] = rounds[:, 1, 2] * 20
    found = FoundTiers.of(rounds)
    assert found.sizes == (4, 8) and not found.uneven
    [(one, other, factor)] = slow_pairs(rounds, found.sizes)
    assert (one, other) == (1, 2) and 10 < factor < 30
    rounds[1, 1, 2] = rounds[1, 2, 1] = 200  # the odd rounds know better
    assert slow_pairs(rounds, found.sizes) == []


def test_a_host_behind_a_slow_link_is_no_tier() -> None:
    rounds = planted((2, 8), (250, 2200))
    rounds[:, :6, 6:] *= 5
    rounds[:, 6:, :6] *= 5
    found = FoundTiers.of(rounds)
    [split] = found.uneven
    assert found.sizes == (2, 8) and split.units[-1] == (6, 7)


def test_ranks_that_are_dealt_out_in_turns_are_scattered() -> None:
    found = FoundTiers.of(planted((4, 8), (250, 2200), order=[0, 2, 4, 6, 1, 3, 5, 7]))
    assert found.sizes == (8,) and found.scattered is not None
    assert found.scattered.units == ((0, 2, 4, 6), (1, 3, 5, 7))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ((8,), "ranks 2 and 3 take 250 us, 1 and 7 2200 us, and no tier of 2 ranks is declared"),
        ((4, 8), "ranks 2 and 3 take 250 us, 1 and 3 2200 us, and no tier of 2 ranks is declared"),
        ((1, 8), "ranks 2 and 3 take 250 us, 1 and 7 2200 us, and no tier of 2 ranks is declared"),
        ((2, 4, 8), "ranks 1 and 3 take 2200 us, 1 and 7 2200 us, and a tier of 4 ranks is declared"),
    ],
)
def test_a_wrong_declaration_is_told_by_two_pairs(declared: tuple[int, ...], said: str) -> None:
    """One of the nearer ranks and one of the others, in the middle of their kind."""
    us = np.array((250.0, 2200.0))[reach(8, (2, 8))]
    np.fill_diagonal(us, np.nan)
    assert contradiction(us, (2, 8), declared) == said
    assert contradiction(us, (2, 8), (1, 2, 8)) == ""
