"""Statistics of timings: what the estimates leave out, and whether their errors are honest."""

from math import inf

import numpy as np
import pytest

from overlayccl_core.measuring import statistics


def test_trimmed_mean_ignores_a_quarter_at_each_end_of_the_last_axis() -> None:
    assert statistics.trimmed_mean([1000.0, 1.0, 2.0, 3.0, 2.0, 3.0, -50.0, 4.0]) == 2.5
    assert np.allclose(statistics.trimmed_mean([[1.0, 3.0], [2.0, 6.0]]), [2.0, 4.0])
    with pytest.raises(ValueError, match="at least one sample"):
        statistics.trimmed_mean([])


def test_standard_error_matches_the_spread_of_repeated_estimates() -> None:
    random = np.random.default_rng(3)
    samples = random.lognormal(0.0, 0.3, (300, 40))
    spread = np.std(statistics.trimmed_mean(samples))
    claimed = np.mean([statistics.estimate(s).standard_error for s in samples[:60]])
    assert 0.8 < claimed / spread < 1.2


def test_the_repeat_error_is_half_of_what_even_and_odd_rounds_differ_by() -> None:
    alternating = [10.0, 30.0] * 8
    steady = [10.0] * 16
    assert statistics.repeat_error([alternating]) == pytest.approx(0.5)
    assert statistics.repeat_error([alternating, steady, steady]) == 0.0


def test_repeat_error_between_launches() -> None:
    assert statistics.repeat_error_between([[10.0] * 4], [[30.0] * 4]) == pytest.approx(0.5**0.5)


def test_a_repeat_error_is_the_median_error_of_the_true_time() -> None:
    """By rounds of one launch, and by launches."""
    batch = 1 + 0.1 * np.random.default_rng(7).normal(size=(2, 2000, 12))
    errors = np.abs(statistics.trimmed_mean(batch[0]) - 1)
    for told in (statistics.repeat_error(batch[0]), statistics.repeat_error_between(*batch)):
        assert 0.9 < told / np.median(errors) < 1.1


def test_paired_ratio_sees_through_noise_that_both_sides_share() -> None:
    random = np.random.default_rng(5)
    weather = random.lognormal(0.0, 0.8, 30)
    ratio = statistics.paired_ratio([(2.0 * weather, 1.0 * weather)])
    assert ratio.value == pytest.approx(2.0)
    other_launch = np.exp(statistics.BETWEEN_LAUNCHES)
    assert (ratio.low, ratio.high) == (pytest.approx(2.0 / other_launch), pytest.approx(2.0 * other_launch))
    assert ratio.beyond_noise and ratio.not_slower


def test_within_a_launch_a_ratio_is_of_medians() -> None:
    stalled = np.full(20, 2.0)
    stalled[3] = 500.0
    assert statistics.paired_ratio([(stalled, np.ones(20))]).value == 2.0
    ratio = statistics.paired_ratio([(stalled, np.ones(20))] * 3)
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 2.0)


def test_the_interval_of_two_launches_holds_what_each_said() -> None:
    """Thrice as slow in one and equal in the other: nothing is known beyond noise."""
    ratio = statistics.paired_ratio([(np.full(20, r), np.ones(20)) for r in (3.0, 1.01)])
    assert ratio.low == 1.01 and ratio.high == 3.0 and not ratio.beyond_noise
    alike = statistics.paired_ratio([(np.full(20, r), np.ones(20)) for r in (3.0, 2.9)])
    assert alike.low < 2.9 and alike.beyond_noise


def test_from_three_launches_on_the_interval_is_students_of_their_logarithms() -> None:
    each = np.array([1.1, 1.3, 1.2])
    ratio = statistics.paired_ratio([(np.full(20, r), np.ones(20)) for r in each])
    logs = np.log(each)
    half = 4.302652729911275 * logs.std(ddof=1) / 3**0.5
    assert ratio.value == pytest.approx(1.2)
    assert (ratio.low, ratio.high) == (
        pytest.approx(np.exp(logs.mean() - half)),
        pytest.approx(np.exp(logs.mean() + half)),
    )


@pytest.mark.parametrize("spread", [0.05, 0.08])
@pytest.mark.parametrize("launches", [3, 4, 5])
def test_intervals_hold_the_truth_19_times_in_20(
    spread: float, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches differ by the spread, rounds by 5%: an interval over the rounds alone would hold it far less."""
    random = np.random.default_rng([launches, int(100 * spread)])

    def measured(count: int) -> statistics.Ratio:
        of_launch = random.lognormal(0.0, spread, count)
        sides = [(1.3 * x * random.lognormal(0, 0.05, 12), random.lognormal(0, 0.05, 12)) for x in of_launch]
        return statistics.paired_ratio(sides, resamples=100)

    def holds(ratio: statistics.Ratio) -> bool:
        assert ratio.low is not None and ratio.high is not None
        return ratio.low <= 1.3 <= ratio.high

    assert np.mean([holds(measured(launches)) for _ in range(400)]) >= 0.92
    assert np.mean([holds(measured(1)) for _ in range(100)]) >= 0.92
    monkeypatch.setattr(statistics, "BETWEEN_LAUNCHES", 0.0)
    assert np.mean([holds(measured(1)) for _ in range(100)]) < 0.85


def test_below_six_rounds_there_is_no_interval_and_nothing_is_decided() -> None:
    two = statistics.paired_ratio([(np.array([1.29, 1.29]), np.ones(2))])
    assert (two.value, two.low, two.high) == (1.29, None, None)
    assert not two.beyond_noise and not two.not_slower and not two.slower
    assert two.word == "undecided" and str(two) == "1.29 (too few rounds)"
    six = statistics.paired_ratio([(np.full(6, 1.29), np.ones(6))])
    assert six.beyond_noise and str(six) == "1.29 (1.06..1.58)"
    several = statistics.paired_ratio([(np.full(2, 1.29), np.ones(2))] * 2)
    assert several.low is None


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(1.03, 1.2, "faster"), (0.96, 1.2, "not slower"), (0.94, 1.2, "undecided"), (0.8, 0.97, "slower")],
)
def test_not_slower_is_a_matter_of_the_low_end(low: float, high: float, word: str) -> None:
    assert statistics.Ratio(value=1.0, low=low, high=high).word == word


def test_of_k_equal_programs_none_is_chosen_and_none_has_a_gain_in_launches_after_the_choice() -> None:
    """The best of twelve equal ones looks faster where it is chosen: launches 5% apart, rounds 5%."""
    random = np.random.default_rng(11)

    def launch() -> np.ndarray:
        return random.lognormal(0.0, 0.05, (12, 1)) * random.lognormal(0.0, 0.05, (12, 12))

    looked, is_faster = [], []
    for _ in range(100):
        bench = launch()
        best = int(np.argmin(np.median(bench, axis=1)[1:])) + 1
        looked.append(statistics.paired_ratio([(bench[0], bench[best])], resamples=100).beyond_noise)
        after = [launch() for _ in range(4)]
        is_faster.append(statistics.paired_ratio([(x[0], x[best]) for x in after]).beyond_noise)
    assert np.mean(looked) < 0.05
    assert np.mean(is_faster) < 0.05


def test_rounds_that_both_took_part_in_are_paired() -> None:
    slow = {0: [4.0, 4.0], 2: [9.0], 1: [6.0, 6.0], 3: []}
    fast = {1: [2.0, 2.0], 0: [2.0, 2.0], 2: [1.0, 7.0], 3: [], 4: [1.0]}
    pairs = [([4.0, 4.0], [2.0, 2.0]), ([6.0, 6.0], [2.0, 2.0]), ([9.0], [1.0])]
    assert statistics.common_launches(slow, fast) == pairs
    ratio = statistics.ratio_over_launches(slow, fast)
    assert ratio is not None and ratio.value == 3.0
    assert statistics.ratio_over_launches({0: [1.0]}, {1: [1.0]}) is None


def test_unpaired_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="same rounds"):
        statistics.paired_ratio([([1.0, 2.0], [1.0])])


def test_of_seeds_the_median_and_an_interval_of_order_statistics() -> None:
    ratio = statistics.over_seeds([4.0, 2.0, 1.0, 2.0, 2.0])
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 1.0, 4.0)
    never = statistics.over_seeds([1.0, 2.0, inf, inf, inf])
    assert (never.value, never.low, never.high) == (inf, 1.0, inf)
    assert statistics.over_seeds([1.0, 2.0, 2.0, 4.0]) == statistics.Ratio(value=2.0), "fewer than five"


@pytest.mark.parametrize("seeds", [5, 8, 9, 12])
def test_the_interval_over_seeds_holds_the_median_of_all_as_often_as_it_says(seeds: int) -> None:
    drawn = np.random.default_rng(0).exponential(size=(4000, seeds))
    intervals = [statistics.over_seeds(each) for each in drawn]
    held = np.mean([r.low <= np.log(2) <= r.high for r in intervals])  # the median of the distribution
    assert held > 0.925, "all draws together hold it too rarely"
    assert seeds < 9 or held < 0.995, "a narrower pair would do"


def test_the_interval_over_seeds_holds_the_median_and_ends_at_the_best() -> None:
    ratio = statistics.over_seeds([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 50.0])
    assert ratio.low is not None and ratio.low == ratio.value == 1.0
