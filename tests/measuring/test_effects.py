"""Effects of factors: planted truths come back, and what is told adds up to the whole."""

from itertools import islice
from math import log

import numpy as np
import pytest

from overlayccl_core.measuring.effects import (
    NONE,
    Effects,
    FactorEffect,
    Factors,
    drawn_orders,
    half_width,
    orders,
    subsets,
)
from overlayccl_core.measuring.statistics import Ratio

NAMES = ("boundary", "merge", "primitive", "layout", "dtype")
GAINS = {"boundary": 1.1, "merge": 1.5, "primitive": 1.2, "layout": 0.9, "dtype": 1.05}
LAUNCHES = 5


def planted(
    factors: tuple[str, ...], together: dict[tuple[str, ...], float] | None = None, noise: float = 0.0
) -> Effects:
    """Times of all sets of the factors, each of its gain, and of more where some are together."""
    random = np.random.default_rng(3)
    us: dict[Factors, dict[int, list[float]]] = {}
    for some in subsets(factors):
        gain = np.prod([GAINS[one] for one in some])
        gain *= np.prod([more for set_, more in (together or {}).items() if {*set_} <= {*some}])
        us[frozenset(some)] = {
            launch: [1000 * (1 + launch) / gain * float(np.exp(random.normal(0, noise)))] * 3
            for launch in range(LAUNCHES)
        }
    return Effects(factors=factors, us=us)


def ratios(of: Effects, effect: FactorEffect) -> dict[tuple[str, ...], float]:
    return {told.factors: told.ratio.value for told in of.told() if told.effect is effect}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_factors_that_multiply_get_their_own_gains(count: int) -> None:
    factors = NAMES[:count]
    of = planted(factors)
    assert ratios(of, FactorEffect.PART) == pytest.approx({(one,): GAINS[one] for one in factors})
    assert of.whole.value == pytest.approx(np.prod([GAINS[one] for one in factors]))
    assert all(value == pytest.approx(1) for value in ratios(of, FactorEffect.TOGETHER).values())


def test_what_two_give_only_together_is_seen_and_shared() -> None:
    of = planted(NAMES[:3], {("boundary", "merge"): 2.0})
    assert ratios(of, FactorEffect.TOGETHER) == pytest.approx(
        {
            ("boundary", "merge"): 2.0,
            ("boundary", "primitive"): 1.0,
            ("merge", "primitive"): 1.0,
            ("boundary", "merge", "primitive"): 1.0,
        }
    )
    assert ratios(of, FactorEffect.ALONE)["merge",] == pytest.approx(1.5)
    assert ratios(of, FactorEffect.PART)["merge",] == pytest.approx(1.5 * 2**0.5)
    assert ratios(of, FactorEffect.PART)["primitive",] == pytest.approx(1.2)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_parts_add_up_to_the_whole_and_so_do_alone_and_together(count: int) -> None:
    of = planted(NAMES[:count], {NAMES[:2]: 1.3}, noise=0.1)
    whole = log(of.whole.value)
    assert sum(map(log, ratios(of, FactorEffect.PART).values())) == pytest.approx(whole)
    shares = [told.share for told in of.told() if told.effect is FactorEffect.PART]
    assert sum(share for share in shares if share is not None) == pytest.approx(1)
    if count <= 3:
        apart = {**ratios(of, FactorEffect.ALONE), **ratios(of, FactorEffect.TOGETHER)}
        assert sum(map(log, apart.values())) == pytest.approx(whole)
    else:
        assert not ratios(of, FactorEffect.TOGETHER)


def test_of_two_factors_the_part_is_the_main_effect_of_the_factorial() -> None:
    of = planted(NAMES[:2], {NAMES[:2]: 1.4}, noise=0.2)
    gain = {some: values.mean() for some, values in of.gains.items()}
    a, b = (frozenset({name}) for name in NAMES[:2])
    main = ((gain[a] - gain[NONE]) + (gain[a | b] - gain[b])) / 2
    assert of.part(NAMES[0]).mean() == pytest.approx(main)


def test_a_launch_that_is_slow_for_all_arms_changes_nothing_and_one_without_an_arm_is_left_out() -> None:
    of = planted(NAMES[:2])
    assert of.whole.low == pytest.approx(of.whole.high)
    del of.us[frozenset({"merge"})][2]  # type: ignore[attr-defined]
    assert Effects(factors=of.factors, us=of.us).launches == [0, 1, 3, 4]


def test_only_common_rounds_count() -> None:
    us = {NONE: {0: [100.0, 100.0, 900.0, 900.0]}, frozenset({"merge"}): {0: [50.0, 50.0]}}
    assert Effects(factors=("merge",), us=us).whole == Ratio(value=pytest.approx(2.0))


def test_intervals_are_over_launches_and_shares_need_a_clear_whole() -> None:
    clear, noisy = planted(NAMES[:1], noise=0.01), planted(NAMES[:1], noise=0.5)
    assert half_width(clear.whole) == pytest.approx(0.02, abs=0.02)
    assert [told.share for told in clear.told()] == pytest.approx([1, 1])
    assert [told.share for told in noisy.told()] == [None, None]
    assert half_width(Ratio(value=1.2)) is None
    assert half_width(Ratio(value=1.0, low=1 / 1.05, high=1.05)) == pytest.approx(0.05)


def test_orders_of_which_a_set_was_not_measured_do_not_count() -> None:
    factors = NAMES[:4]
    drawn = [("merge", "boundary", "primitive", "layout"), ("layout", "primitive", "boundary", "merge")]
    measured = {frozenset(order[:size]) for order in drawn for size in range(5)}
    assert set(orders(factors, measured)) == {*drawn}
    of = planted(factors, {NAMES[:2]: 2.0})
    some = Effects(factors=factors, us={one: us for one, us in of.us.items() if one in measured})
    assert some.part("merge").mean() == pytest.approx((log(1.5) + log(3.0)) / 2)
    parts = ratios(some, FactorEffect.PART)
    assert sum(map(log, parts.values())) == pytest.approx(log(some.whole.value))


def test_drawn_orders_are_the_same_each_time_and_come_with_their_reverse() -> None:
    first, second = (list(islice(drawn_orders(NAMES, seed=0), 6)) for _ in range(2))
    assert first == second and len(set(first)) > 2
    assert all(sorted(order) == sorted(NAMES) for order in first)
    assert first[1] == first[0][::-1]
