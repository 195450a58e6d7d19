"""Tuners on planted times: each finds the best way with seconds enough, and measures as it says."""

from itertools import islice
from typing import Any

import optuna
import pytest

from overlayccl_core.process_group.descent import Descent
from overlayccl_core.tables.tune import TunerName
from overlayccl_core.tuning.recorded import Draws
from overlayccl_core.tuning.tuners import MEASURING, MOST, descent, grid, hyperband
from tests.tuning.recorded import BEST, call


@pytest.mark.parametrize("name", MEASURING)
def test_every_tuner_finds_the_best_way(name: TunerName) -> None:
    recorded = call()
    found = list(islice(MEASURING[name](recorded.arms, Draws(recorded, 0).measure, 0), 400))
    assert found[-1] == BEST == recorded.regrets.argmin()


@pytest.mark.parametrize("name", MEASURING)
def test_a_course_follows_from_its_seed(name: TunerName) -> None:
    recorded = call(noise=0.3)

    def course() -> list[int]:
        return list(islice(MEASURING[name](recorded.arms, Draws(recorded, 3).measure, 3), 60))

    assert course() == course()


def test_the_grid_measures_all_in_their_order() -> None:
    measured: list[int] = []

    def measure(way: int) -> list[float]:
        measured.append(way)
        return [1.0]

    list(islice(grid(call().arms, measure, 0), 24))
    assert measured == [*range(12), *range(12)]


def test_the_descent_is_that_of_ranks_and_ends() -> None:
    recorded = call()
    draws, search = Draws(recorded, 5), Descent(recorded.arms, recorded.arms[0])
    measured = []

    def measure(best: int, trial: int) -> list[float]:
        measured.append((recorded.arms[best], recorded.arms[trial]))
        return draws.measure(best, trial)

    assert list(descent(recorded.arms, measure, 5))[-1] == BEST
    again = Draws(recorded, 5)
    for best, trial in measured:
        assert (search.best, search.trial) == (best, trial)
        first, second = again.measure(recorded.arms.index(best), recorded.arms.index(trial))
        search.feed([(first, second)])
    assert search.trial is None


def test_hyperband_has_the_most_trials_where_they_begin_with_the_fewest_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inverted brackets would have the most trials where each takes all of its samples at once."""
    studies = []
    honest = optuna.create_study

    def kept(**options: Any) -> Any:
        studies.append(honest(**options))
        return studies[-1]

    monkeypatch.setattr(optuna, "create_study", kept)
    recorded = call()
    list(islice(hyperband(recorded.arms, Draws(recorded, 0).measure, 0), 400))
    brackets: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for trial in studies[0].trials[:-1]:
        of = studies[0].pruner._get_bracket_id(studies[0], trial)
        brackets[of].append(len(trial.intermediate_values))
    assert len(brackets[0]) > len(brackets[1]) > len(brackets[2]) > 0
    assert [min(samples) for samples in brackets.values()] == [1, 3, MOST]
    assert {samples for bracket in brackets.values() for samples in bracket} == {1, 3, MOST}
