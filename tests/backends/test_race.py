"""Who leaves a race: never the fastest, never what is close; always what is slow beyond noise."""

import numpy as np
import pytest

from overlayccl_core.backends.race import Races, finished
from overlayccl_core.measuring.statistics import FEWEST_ROUNDS

ENOUGH = 12
ROUNDS = 20  # of a whole race


def samples(
    *times: float, rounds: int = FEWEST_ROUNDS, noise: float = 0.05, seed: int = 0
) -> list[list[float]]:
    random = np.random.default_rng(seed)
    return [[us * float(np.exp(noise * random.standard_normal())) for _ in range(rounds)] for us in times]


def test_what_is_slow_beyond_noise_leaves_and_what_is_close_stays() -> None:
    assert finished([("a",)] * 3, samples(100, 103, 150), enough=ENOUGH) == [False, False, True]


def test_nobody_leaves_before_there_is_an_interval() -> None:
    few = samples(100, 900, rounds=FEWEST_ROUNDS - 1)
    assert finished([("a",)] * 2, few, enough=ENOUGH) == [False, False]


def leaves(*times: float, noise: float, seed: int, rounds: int = FEWEST_ROUNDS) -> bool:
    """Whether the last one does, after so many rounds."""
    return finished([("a",)] * len(times), samples(*times, noise=noise, seed=seed, rounds=rounds), enough=99)[
        -1
    ]


def test_15_percent_behind_is_enough_where_rounds_are_quiet_and_not_where_they_are_noisy() -> None:
    """All are of one launch: what another launch would bring is no reason to stay."""
    seeds = range(20)
    assert all(leaves(100, 115, noise=0.02, seed=s) for s in seeds)
    assert sum(leaves(100, 115, noise=0.25, seed=s, rounds=10) for s in seeds) <= 1


@pytest.mark.parametrize("programs", [2, 6])
def test_of_equal_programs_hardly_any_is_left_behind_however_often_they_are_looked_at(programs: int) -> None:
    """A race of 20 rounds has 15 looks, and the leader of each is the luckiest of all."""
    lost = []
    for seed in range(30):
        races = Races([("a",)] * programs, enough=99)
        times = samples(*[100.0] * programs, rounds=ROUNDS, seed=seed)
        for rounds in range(1, ROUNDS + 1):
            races.look([mine[:rounds] for mine in times])
        lost.append(np.mean(races.over))
    assert np.mean(lost) <= 0.03


def test_races_do_not_see_each_other() -> None:
    assert finished([("a",), ("b",)], samples(100, 900), enough=ENOUGH) == [False, False]


def test_one_that_leads_another_race_stays() -> None:
    races = [("all",), ("all", "seeds"), ("all", "seeds")]
    assert finished(races, samples(100, 200, 400), enough=ENOUGH) == [False, False, True]


def test_a_leader_whom_nobody_follows_has_won_after_enough_rounds() -> None:
    behind = samples(200)[0]
    ahead = samples(100, rounds=ENOUGH)[0]
    assert finished([("a",), ("a",)], [ahead[:-1], behind], enough=ENOUGH) == [False, True]
    assert finished([("a",), ("a",)], [ahead, behind], enough=ENOUGH) == [True, True]


def test_a_program_in_no_race_gets_all_rounds() -> None:
    assert finished([(), ()], samples(100, 900, rounds=ENOUGH), enough=ENOUGH) == [False, False]
