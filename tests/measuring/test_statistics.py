"""Statistics of timings: what the estimates leave out, and whether their errors are honest."""

import numpy as np
import pytest

from overlayccl_core.measuring import statistics


def test_trimmed_mean_ignores_a_quarter_at_each_end() -> None:
    assert statistics.trimmed_mean([1000.0, 1.0, 2.0, 3.0, 2.0, 3.0, -50.0, 4.0]) == 2.5


def test_trimmed_mean_of_a_batch_is_taken_over_the_last_axis() -> None:
    assert np.allclose(statistics.trimmed_mean([[1.0, 3.0], [2.0, 6.0]]), [2.0, 4.0])


def test_no_samples_are_refused_with_the_mend() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        statistics.trimmed_mean([])


def test_standard_error_matches_the_spread_of_repeated_estimates() -> None:
    random = np.random.default_rng(3)
    samples = random.lognormal(0.0, 0.3, (300, 40))
    spread = np.std(statistics.trimmed_mean(samples))
    claimed = np.mean([statistics.estimate(s).standard_error for s in samples[:60]])
    assert 0.8 < claimed / spread < 1.2


def test_repeat_error_compares_even_with_odd_rounds() -> None:
    alternating = [10.0, 30.0] * 8
    steady = [10.0] * 16
    assert statistics.repeat_error([alternating]) == pytest.approx(1.0)
    assert statistics.repeat_error([alternating, steady, steady]) == 0.0


def test_repeat_error_between_launches() -> None:
    assert statistics.repeat_error_between([[10.0] * 4], [[30.0] * 4]) == pytest.approx(1.0)


def test_paired_ratio_sees_through_noise_that_both_sides_share() -> None:
    random = np.random.default_rng(5)
    weather = random.lognormal(0.0, 0.8, 30)
    ratio = statistics.paired_ratio([(2.0 * weather, 1.0 * weather)])
    assert ratio.value == pytest.approx(2.0)
    assert ratio.low == pytest.approx(2.0) and ratio.high == pytest.approx(2.0)
    assert ratio.beyond_noise and ratio.not_slower


def test_within_a_launch_a_ratio_is_of_medians() -> None:
    stalled = np.full(20, 2.0)
    stalled[3] = 500.0
    for launches in (1, 3):
        ratio = statistics.paired_ratio([(stalled, np.ones(20))] * launches)
        assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 2.0)


def test_interval_of_several_launches_spans_what_differs_between_launches() -> None:
    one = (np.full(20, 4.0), np.full(20, 1.0))
    two = (np.full(20, 5.0), np.full(20, 1.0))
    ratio = statistics.paired_ratio([one, two, two])
    assert ratio.value == 5.0
    assert ratio.low == 4.0 and ratio.high == 5.0


def test_the_interval_is_that_of_a_bootstrap_written_as_two_loops() -> None:
    random = np.random.default_rng(3)
    launches = [(random.lognormal(0.7, 0.3, 8), random.lognormal(0.0, 0.3, 8)) for _ in range(5)]

    def drawn() -> float:
        ratios = []
        for a, b in (launches[i] for i in random.integers(0, 5, 5)):
            rounds = random.integers(0, 8, 8)  # anew each time that a launch is drawn
            ratios.append(np.median(a[rounds]) / np.median(b[rounds]))
        return float(np.median(ratios))

    low, high = np.quantile([drawn() for _ in range(4000)], [0.025, 0.975])
    found = statistics.paired_ratio(launches, resamples=4000)
    assert abs(found.low - low) < 0.05 * (high - low)
    assert abs(found.high - high) < 0.05 * (high - low)


def test_only_launches_with_the_same_rounds_are_paired() -> None:
    slow = {0: [4.0, 4.0], 2: [9.0], 1: [6.0, 6.0], 3: []}
    fast = {1: [2.0, 2.0], 0: [2.0, 2.0], 2: [1.0, 1.0], 3: [], 4: [1.0]}
    assert statistics.common_launches(slow, fast) == [([4.0, 4.0], [2.0, 2.0]), ([6.0, 6.0], [2.0, 2.0])]
    ratio = statistics.ratio_over_launches(slow, fast)
    assert ratio is not None and ratio.value == 2.5
    assert statistics.ratio_over_launches({0: [1.0]}, {1: [1.0]}) is None


def test_unpaired_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="same rounds"):
        statistics.paired_ratio([([1.0, 2.0], [1.0])])
