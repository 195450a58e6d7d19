"""Figures of fidelity against data made by hand."""

import numpy as np
import pytest
from scipy import stats

from overlayccl_core.costmodel.fidelity import Scored, fidelity, kendall, pair_accuracy, spearman, top1


def scored(*pairs: tuple[float, list[float]]) -> list[Scored]:
    return [Scored(predicted_us=p, samples_us=s) for p, s in pairs]


def test_a_perfect_prediction_of_steady_times() -> None:
    found = fidelity(scored((10, [10.0] * 8), (20, [20.0] * 8), (40, [40.0] * 8)))
    assert (found.n, found.rounds, found.pairs) == (3, 8, 3)
    assert found.spearman == found.kendall == found.pair_accuracy == found.repeat_spearman == 1
    assert found.median_rel_error == found.repeat_rel_error == 0
    assert (found.residual_low, found.residual_high) == (1, 1)


def test_errors_are_relative_to_what_was_measured() -> None:
    found = fidelity(scored((12, [10.0] * 4), (20, [20.0] * 4), (30, [40.0] * 4)))
    assert found.median_rel_error == pytest.approx(0.2)
    assert found.residual_low < 1 < found.residual_high


def test_a_swapped_pair_costs_order_and_accuracy() -> None:
    found = fidelity(scored((10, [10.0] * 4), (40, [20.0] * 4), (20, [40.0] * 4)))
    assert found.spearman == pytest.approx(0.5)
    assert found.kendall == pytest.approx(1 / 3)
    assert found.pair_accuracy == pytest.approx(2 / 3)


@pytest.mark.parametrize("values", [3, 10**6], ids=["ties", "no ties"])
def test_orders_are_compared_as_statisticians_do(values: int) -> None:
    a, b = np.random.default_rng(0).integers(values, size=(2, 40)).astype(float)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert kendall(a, b) == pytest.approx(stats.kendalltau(a, b).statistic)


def test_only_pairs_further_apart_than_two_standard_errors_count() -> None:
    measured, predicted = np.array([10.0, 11.0, 30.0]), np.array([11.0, 10.0, 30.0])
    assert pair_accuracy(measured, np.array([1.0, 1.0, 1.0]), predicted) == (1.0, 2)
    assert pair_accuracy(measured, np.array([0.1, 0.1, 0.1]), predicted) == (pytest.approx(2 / 3), 3)
    assert pair_accuracy(measured, np.array([50.0, 50.0, 50.0]), predicted) == (None, 0)


def test_regret_is_of_the_first_choice_over_the_fastest_and_nothing_without_a_choice() -> None:
    slow, quick = [12.0] * 4, [10.0] * 4
    two = scored((1, slow), (2, quick))
    assert fidelity(two, first=(slow, quick)).top1_regret == pytest.approx(0.2)
    found = fidelity(two, first=(quick, quick))
    assert (found.top1_regret, found.top1_within_noise) == (0, True)
    assert fidelity(two).top1_regret is fidelity(two).top1_within_noise is None


def test_regret_is_within_noise_where_the_paired_ratio_holds_1_however_loud_the_rounds_are() -> None:
    loud = np.random.default_rng(0).lognormal(2.0, 0.5, 20)  # of both alike, as a busy machine is
    always_slower, at_times = list(1.1 * loud), list(loud[::-1] * 1.02)
    for mine, within in ((always_slower, False), (at_times, True)):
        regret, found = top1(mine, list(loud))
        assert regret > 0 and found is within


def test_the_repeat_error_is_of_even_against_odd_rounds() -> None:
    wobbly = [10.0, 12.0] * 6
    found = fidelity(scored((11, wobbly), (21, [2 * x for x in wobbly]), (41, [4 * x for x in wobbly])))
    assert found.repeat_rel_error == pytest.approx(2 / 11)
    assert found.repeat_spearman == 1


def test_what_has_no_meaning_has_no_value() -> None:
    found = fidelity(scored((10, [10.0] * 2), (20, [20.0] * 2)))
    assert found.spearman is found.kendall is found.repeat_spearman is None
    with pytest.raises(ValueError, match="at least 2 rounds \\(got 1\\)"):
        fidelity(scored((10, [10.0]), (20, [20.0, 20.0])))
    with pytest.raises(ValueError, match="at least one measured Program"):
        fidelity([])
