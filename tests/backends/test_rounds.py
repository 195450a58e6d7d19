"""How often and in which order Programs are called."""

from collections.abc import Sequence

import pytest

from overlayccl_core.backends.measured import TimingSettings
from overlayccl_core.backends.race import finished
from overlayccl_core.backends.rounds import fewest_rounds, lead_in_calls, planned_rounds, repeats_for, visits
from overlayccl_core.configuration.settings import read
from overlayccl_core.measuring import statistics


@pytest.mark.parametrize(
    ("call_s", "repeats"),
    [(0.001, 16), (0.0011, 15), (0.005, 4), (0.0159, 2), (0.016, 1), (2.0, 1), (1e-7, 16)],
)
def test_a_sample_lasts_at_least_sixteen_ms_with_at_most_sixteen_calls(call_s: float, repeats: int) -> None:
    assert repeats_for(call_s, min_sample_ms=16.0, max_repeats=16) == repeats


@pytest.mark.parametrize(("call_s", "calls"), [(0.001, 10), (0.006, 2), (0.03, 1), (0.031, 0), (1e-7, 64)])
def test_a_stream_is_busy_before_it_is_timed(call_s: float, calls: int) -> None:
    assert lead_in_calls(call_s, lead_in_ms=10.0, max_repeats=64) == calls


def test_rounds_follow_from_the_budget() -> None:
    rounds = planned_rounds([0.1, 0.3], [None, None], budget_s=8.0, maximum_rounds=60)
    assert rounds == 20
    assert planned_rounds([0.1, 0.3], [None, None], budget_s=1e3, maximum_rounds=60) == 60


def test_never_fewer_than_two_rounds() -> None:
    assert planned_rounds([10.0], [None], budget_s=1.0, maximum_rounds=60) == 2
    assert planned_rounds([10.0], [None], budget_s=1.0, fewest=6, maximum_rounds=60) == 6


def test_a_race_has_as_many_rounds_as_it_takes_to_leave_it() -> None:
    races = [["a"], ["a", "b"], []]
    assert fewest_rounds(races, 12) == statistics.FEWEST_ROUNDS
    assert finished(races, [[9.0] * 6, [1.0] * 6, [9.0] * 6], enough=12)[0]  # so many are enough to leave
    assert fewest_rounds(races, 3) == 3 and fewest_rounds([[], []], 12) == 2


def test_programs_with_a_limit_leave_the_budget_to_the_others() -> None:
    rounds = planned_rounds([0.1, 0.3], [None, 5], budget_s=8.0, maximum_rounds=100)
    assert rounds == 65


def batch(rounds: int, caps: Sequence[int | None], *, seed: int = 0) -> list[list[int]]:
    return [visits(index, rounds, caps, seed=seed) for index in range(rounds)]


def test_one_round_visits_every_program_once_in_an_order_of_its_own() -> None:
    plan = batch(6, [None] * 8, seed=4)
    assert all(sorted(jobs) == list(range(8)) for jobs in plan)
    assert len({tuple(jobs) for jobs in plan}) > 4
    assert plan == batch(6, [None] * 8, seed=4) != batch(6, [None] * 8, seed=5)


def test_a_limited_program_is_visited_all_over_the_batch() -> None:
    with_it = [index for index, jobs in enumerate(batch(20, [None, 5])) if 1 in jobs]
    assert with_it == [0, 4, 8, 12, 16]


def test_a_program_without_rounds_is_not_visited_once_rounds_count() -> None:
    assert batch(3, [None, 0]) == [[0]] * 3


def test_a_batch_that_ends_a_round_early_has_visited_what_has_fewer_rounds_as_often_as_planned() -> None:
    plan = batch(28, [9, None])
    assert sum(0 in jobs for jobs in plan) == sum(0 in jobs for jobs in plan[:-1]) == 9


def test_a_section_of_the_settings_gives_seconds_and_rounds() -> None:
    section = read().bench.changed(seconds=2.0, minimum_rounds=3, maximum_rounds=5)
    wanted = TimingSettings(seconds=2.0, minimum_rounds=3, maximum_rounds=5, seed=7)
    assert TimingSettings.of(section, seed=7) == wanted
