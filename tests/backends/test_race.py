"""Who leaves a race: never the fastest, never what is close; always what is slow beyond noise."""

import numpy as np

from overlayccl_core.backends.race import finished
from overlayccl_core.measuring.statistics import FEWEST_ROUNDS

ENOUGH = 12


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


def test_equal_programs_hardly_ever_lose_one_of_them() -> None:
    """The interval of one look is at 95%, and what leaves must be 2% behind."""
    left = [any(finished([("a",)] * 2, samples(100, 100, seed=s), enough=ENOUGH)) for s in range(200)]
    assert np.mean(left) < 0.15


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
