"""Tuners side by side at equal seconds; family and parts, alone and together."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.tables.tune import TunerName
from overlayccl_core.tuning import replay
from overlayccl_core.tuning.recorded import RecordedCall
from overlayccl_core.tuning.replay import LOOKS, course, curves, judged
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
    verdict = judged(call())
    assert verdict.found == verdict.chosen == BEST
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
    interaction = judged(recorded).interaction
    assert interaction.low is not None and interaction.high is not None
    assert interaction.low > 1 if more else interaction.high < 1


def alike(us: np.ndarray) -> RecordedCall:
    """Ways of families of their own; us: [ways, rounds]."""
    named = arms({f"f{n}": 1.0 for n in range(len(us))}, {1: 1.0})
    return RecordedCall(arms=named, samples_us=us, repeats=np.ones(len(us), np.int64))


def test_where_nothing_is_faster_beyond_noise_the_call_stays() -> None:
    us = np.array([1000.0, 960.0])[:, None] * np.random.default_rng(0).lognormal(0, 0.3, (2, 40))
    us[1] *= 0.99 * np.median(us[0, ::2]) / np.median(us[1, ::2])  # 1% faster in the even rounds
    us[1, 1::2] /= 2
    verdict = judged(alike(us))
    assert verdict.found == 1 and verdict.both.value == pytest.approx(1 / 0.99)
    assert verdict.chosen == 0


def test_a_way_that_was_lucky_in_the_rounds_that_chose_it_is_not_faster() -> None:
    us = np.full((5, 24), 1000.0)
    us[3, 1::2] = 500.0
    verdict = judged(alike(us))
    assert verdict.found == 3 and verdict.both.value == 1 and verdict.chosen == 0


def test_disturbed_samples_allow_no_win() -> None:
    assert judged(call(disturbed=True)).chosen == 0
