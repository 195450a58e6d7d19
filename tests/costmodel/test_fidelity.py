"""Figures of fidelity against data made by hand."""

import numpy as np
import pytest

from overlayccl_core.costmodel.fidelity import Scored, fidelity, in_order, order_apart, pairs_apart, top1


def scored(*pairs: tuple[float, list[float]]) -> list[Scored]:
    return [Scored(predicted_us=p, samples_us=s) for p, s in pairs]


def test_a_perfect_prediction_of_steady_times() -> None:
    figures = fidelity(scored((10, [10.0] * 8), (20, [20.0] * 8), (40, [40.0] * 8)))
    assert (figures.n, figures.rounds, figures.pairs) == (3, 8, 3)
    assert figures.spearman == figures.kendall == figures.repeat_spearman == 1
    assert figures.pair_accuracy == figures.repeat_pair_accuracy == 1
    assert figures.median_rel_error == figures.repeat_rel_error == 0
    assert (figures.residual_low, figures.residual_high) == (1, 1)


def test_errors_are_relative_to_what_was_measured() -> None:
    figures = fidelity(scored((12, [10.0] * 4), (20, [20.0] * 4), (30, [40.0] * 4)))
    assert figures.median_rel_error == pytest.approx(0.2)
    assert figures.residual_low < 1 < figures.residual_high


def test_a_swapped_pair_costs_order_and_accuracy() -> None:
    figures = fidelity(scored((10, [10.0] * 4), (40, [20.0] * 4), (20, [40.0] * 4)))
    assert figures.spearman == pytest.approx(0.5)
    assert figures.kendall == pytest.approx(1 / 3)
    assert figures.pair_accuracy == pytest.approx(2 / 3)


def test_only_pairs_further_apart_than_two_standard_errors_count() -> None:
    measured, predicted = np.array([10.0, 11.0, 30.0]), np.array([11.0, 10.0, 30.0])
    for error, share, pairs in ((1.0, 1.0, 2), (0.1, pytest.approx(2 / 3), 3), (50.0, None, 0)):
        apart = pairs_apart(measured, np.full(3, error))
        assert (in_order(apart, measured, predicted), len(apart)) == (share, pairs)


def test_regret_is_of_the_first_choice_over_the_fastest_and_nothing_without_a_choice() -> None:
    slow, quick = [12.0] * 4, [10.0] * 4
    two = scored((1, slow), (2, quick))
    assert fidelity(two, first=(slow, quick)).top1_regret == pytest.approx(0.2)
    figures = fidelity(two, first=(quick, quick))
    assert (figures.top1_regret, figures.top1_within_noise) == (0, True)
    assert fidelity(two).top1_regret is fidelity(two).top1_within_noise is None


def test_regret_is_within_noise_where_the_paired_ratio_holds_1_however_loud_the_rounds_are() -> None:
    loud = np.random.default_rng(0).lognormal(2.0, 0.5, 20)  # of both alike, as a busy machine is
    always_slower, at_times = list(1.3 * loud), list(loud[::-1] * 1.02)
    for mine, within in ((always_slower, False), (at_times, True)):
        regret, within_noise = top1(mine, list(loud))
        assert regret > 0 and within_noise is within


def test_a_regret_of_few_rounds_is_no_noise_and_rounds_of_one_alone_do_not_count() -> None:
    quick = [10.0, 11.0, 10.0, 11.0, 10.0, 11.0]
    assert top1([2 * x for x in quick[:5]], quick) == (pytest.approx(1), None)
    assert top1([2 * x for x in quick], [*quick, *([40.0] * 20)]) == (pytest.approx(1), False)


def test_the_repeat_error_is_half_of_even_against_odd_rounds() -> None:
    wobbly = [10.0, 12.0] * 6
    figures = fidelity(scored((11, wobbly), (21, [2 * x for x in wobbly]), (41, [4 * x for x in wobbly])))
    assert figures.repeat_rel_error == pytest.approx(1 / 11)
    assert figures.repeat_spearman == 1


def test_a_model_that_knows_the_true_times_is_right_within_its_noise_and_no_closer() -> None:
    times = 100 * (1 + 0.1 * np.random.default_rng(7).normal(size=(1000, 12)))
    figures = fidelity(scored(*((100.0, list(samples)) for samples in times)))
    assert 0.9 < figures.median_rel_error / figures.repeat_rel_error < 1.1


def test_what_has_no_meaning_has_no_value() -> None:
    figures = fidelity(scored((10, [10.0] * 2), (20, [20.0] * 2)))
    assert figures.spearman is figures.kendall is figures.repeat_spearman is None
    with pytest.raises(ValueError, match=r"2 rounds .*got 1"):
        fidelity(scored((10, [10.0]), (20, [20.0, 20.0])))
    with pytest.raises(ValueError, match="one measured Program"):
        fidelity([])


def test_the_order_of_all_programs_is_spearmans_and_that_of_pairs_apart_leaves_near_ones_out() -> None:
    steady = scored((10, [10.0] * 8), (40, [20.0] * 8), (20, [40.0] * 8), (50, [50.0] * 8))
    assert order_apart(steady) == pytest.approx(fidelity(steady).spearman)
    loud = [10.0, 12.0] * 4
    near = scored((10, loud), (9, [one + 0.1 for one in loud]), (30, [30.0] * 8), (40, [40.0] * 8))
    assert order_apart(near) == pytest.approx(1)
    assert fidelity(near).spearman < 1
    assert order_apart(near[:2]) is None
    assert order_apart(scored((1, loud), (2, loud), (3, loud))) is None
