"""Tuners side by side at equal seconds; family and parts, alone and together."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.tables.tune import TunerName
from overlayccl_core.tuning import replay
from overlayccl_core.tuning.recorded import RecordedCall
from overlayccl_core.tuning.replay import LOOKS, CallVerdict, course, curves, judged
from overlayccl_core.tuning.tuners import Measure
from tests.tuning.recorded import BEST, arms, call


def slow_then_fast(arms: Sequence[TunedArm], measure: Measure, seed: int) -> Iterator[int]:
    for way in (3, 3, BEST):  # ring: 40 ms a sample; copies in two: 4 ms
        measure(way)
        yield way


def test_a_budget_is_of_measured_seconds_and_not_of_samples() -> None:
    recorded = call(noise=0.0)
    found = course(slow_then_fast, recorded, 0, [0.039, 0.041, 0.079, 0.0801, 0.0841, 9.0])
    assert found == [(0, 0), (3, 1), (3, 1), (3, 2), (BEST, 3), (BEST, 3)]


def test_curves_have_all_tuners_at_all_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "SEEDS", {})
    monkeypatch.setattr(replay, "USUAL_SEEDS", 3)
    recorded = call()
    rows = list(curves(recorded, 1))
    assert [(row["tuner"], row["looks"]) for row in rows] == [(one, at) for one in TunerName for at in LOOKS]
    for row in rows:
        assert row["seconds"] == pytest.approx(row["looks"] * recorded.look_s)
        assert row["regret"] <= row["regret_p90"] + 1e-12
        if row["tuner"] == TunerName.PRICE:
            assert row["samples"] == 0 and row["regret"] == pytest.approx(recorded.regrets[1])
    last = {row["tuner"]: row["regret"] for row in rows if row["looks"] == LOOKS[-1]}
    assert {name: us for name, us in last.items() if us > 0.01}.keys() == {TunerName.PRICE}


def test_without_a_price_its_own_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MEASURING", {})
    recorded = call()
    assert {row["regret"] for row in curves(recorded, None)} == {float(recorded.regrets[0])}


def test_gains_that_multiply_have_no_interaction() -> None:
    verdict = judged(call(), call(seed=1))
    assert verdict.best == verdict.found == verdict.chosen == BEST
    assert verdict.family.value == pytest.approx(2, rel=0.03)
    assert verdict.parts.value == pytest.approx(1.25, rel=0.03)
    assert verdict.both.value == pytest.approx(2.5, rel=0.03)
    low, high = verdict.interaction.low, verdict.interaction.high
    assert low is not None and high is not None and low < 1 < high


@pytest.mark.parametrize(("in_two", "more"), [(700.0, False), (200.0, True)])
def test_an_interaction_is_found(in_two: float, more: bool) -> None:
    """Parts make 0.8 of the native call's time, and another share of that of copies."""
    us = np.array([1000.0, 800.0, 500.0, in_two])
    samples = us[:, None] * np.random.default_rng(1).lognormal(0, 0.02, (4, 40))
    families = {"native": 1.0, "copies": 1.0}
    recorded = RecordedCall(
        arms=arms(families, {1: 1, 2: 1}), samples_us=samples, repeats=np.ones(4, np.int64)
    )
    interaction = judged(recorded, recorded).interaction
    assert interaction.low is not None and interaction.high is not None
    assert interaction.low > 1 if more else interaction.high < 1


def alike(us: np.ndarray, named: Sequence[TunedArm] = (), *, disturbed: bool = False) -> RecordedCall:
    """Ways of families of their own, if they have no name; us: [ways, rounds]."""
    named = named or arms({f"f{n}": 1.0 for n in range(len(us))}, {1: 1.0})
    repeats = np.ones(len(us), np.int64)
    return RecordedCall(arms=tuple(named), samples_us=us, repeats=repeats, disturbed=disturbed)


def twice(us: np.ndarray, noise: float, seed: int) -> CallVerdict:
    """22 rounds of all ways, as on two cores, then 100 of the fastest; us: [ways]."""
    random = np.random.default_rng(seed)
    first = alike(us[:, None] * random.lognormal(0, noise, (len(us), 22)))
    some = first.to_time_again
    again = us[some, None] * random.lognormal(0, noise, (len(some), 100))
    return judged(first, alike(again, [first.arms[way] for way in some]))


def test_of_equal_ways_the_calls_own_stays_and_none_is_said_to_gain() -> None:
    verdicts = [twice(np.full(30, 1000.0), 0.4, seed) for seed in range(100)]
    assert sum(verdict.chosen == 0 for verdict in verdicts) >= 95
    said = [np.log(verdict.gain.value) for verdict in verdicts if verdict.found]
    assert len(said) > 50 and abs(np.mean(said)) < 0.04  # 0.01 is noise; of the odd rounds it were 0.1


def test_a_way_that_was_lucky_in_the_first_launch_is_not_chosen() -> None:
    us = 1000 * np.random.default_rng(0).lognormal(0, 0.1, (5, 22))
    first = alike(us * np.array([1, 1, 1, 0.5, 1])[:, None])
    again = alike(
        1000 * np.random.default_rng(1).lognormal(0, 0.1, (4, 100)), first.arms[:1] + first.arms[2:]
    )
    verdict = judged(first, again)
    assert verdict.best == 3 and verdict.both.beyond_noise
    assert verdict.chosen == 0 and not verdict.gain.beyond_noise


def test_a_way_that_is_faster_beyond_noise_is_chosen() -> None:
    us = np.full(30, 1000.0)
    us[17] /= 1.3
    for seed in range(20):
        verdict = twice(us, 0.1, seed)
        assert verdict.again.arms[verdict.chosen].way == "f17_in_1"
        assert verdict.gain.value == pytest.approx(1.3, rel=0.08)


def test_a_gain_that_is_within_noise_is_none() -> None:
    us = np.array([1000.0, 960.0])[:, None] * np.random.default_rng(0).lognormal(0, 0.3, (2, 40))
    us[1] *= 0.99 * np.median(us[0, ::2]) / np.median(us[1, ::2])  # 1% faster in the even rounds
    us[1, 1::2] /= 2
    verdict = judged(alike(us), alike(us))
    assert verdict.found == 1 and verdict.gain.value == pytest.approx(1 / 0.99)
    assert verdict.chosen == 0


def test_a_way_that_was_lucky_in_the_rounds_that_chose_it_is_not_faster() -> None:
    us = np.full((5, 24), 1000.0)
    us[3, 1::2] = 500.0
    verdict = judged(alike(us), alike(us))
    assert verdict.best == verdict.found == 3 and verdict.chosen == 0
    assert verdict.both.value == verdict.gain.value == 1


@pytest.mark.parametrize("which", [(True, False), (False, True)])
def test_disturbed_samples_allow_no_win(which: tuple[bool, bool]) -> None:
    first, again = (call(disturbed=disturbed) for disturbed in which)
    verdict = judged(first, again)
    assert verdict.gain.beyond_noise and verdict.chosen == 0 and verdict.disturbed
