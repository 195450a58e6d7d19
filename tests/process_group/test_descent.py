"""Coordinate descent over made-up times: it finds the fastest way, says how sure it is, and stops."""

import random
from collections.abc import Mapping

import pytest

from overlayccl_core.process_group.descent import CONFIDENCE, FEWEST, MOST, Descent, TunedArm, Watch, interval

ARMS = [
    TunedArm(f"{family}_{parts}", family, parts)
    for family in ("native", "ring", "leader")
    for parts in (1, 2, 4)
]
NATIVE = ARMS[0]
Times = Mapping[str, float]


def tuned(times: Times, *, noise: float = 0.0, best: TunedArm = NATIVE, seed: int = 0) -> Descent:
    """A descent that was fed until it ended, four pairs at once."""
    drawn = random.Random(seed)
    descent = Descent(ARMS, best)
    for _ in range(1000):
        if descent.trial is None:
            return descent
        two = (times[descent.best.way], times[descent.trial.way])
        descent.feed([tuple(t * drawn.lognormvariate(0, noise) for t in two) for _ in range(4)])
    raise AssertionError("it does not end")


def flat(**faster: float) -> Times:
    return {arm.way: 1.0 for arm in ARMS} | faster


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("fastest", [arm.way for arm in ARMS])
def test_it_finds_a_way_that_is_faster_than_all_others(fastest: str, seed: int) -> None:
    family, parts = fastest.rsplit("_", 1)
    times = flat(
        **{f"{family}_{p}": 0.5 + 0.1 * abs(i - (1, 2, 4).index(int(parts))) for i, p in enumerate((1, 2, 4))}
    )
    assert tuned(times, noise=0.1, seed=seed).best.way == fastest


def test_parts_go_down_too_from_where_they_begin() -> None:
    begun = ARMS[2]
    assert tuned(flat(native_1=0.5, native_2=0.7, native_4=0.9), best=begun).best == NATIVE


def test_of_ways_that_differ_by_noise_alone_the_one_that_is_made_now_stays() -> None:
    kept = [tuned(flat(), noise=0.1, seed=seed).best == NATIVE for seed in range(100)]
    assert kept.count(True) >= 95


def test_a_hopeless_family_is_tried_in_one_part_alone_and_at_once() -> None:
    ended = tuned(flat(ring_1=2.0, ring_2=2.0, ring_4=2.0), noise=0.05)
    of_ring = [one for one in ended.trials if one.arm.family == "ring"]
    assert [(one.arm.parts, one.pairs) for one in of_ring] == [(1, FEWEST + 2)]


def test_what_cannot_be_told_apart_ends_after_the_most_pairs() -> None:
    ended = tuned(flat(), noise=0.2, seed=2)
    assert ended.trials[0].pairs == MOST


def test_a_way_that_looks_faster_is_tried_for_longer() -> None:
    found = [tuned(flat(native_2=0.88), noise=0.19, seed=seed).best for seed in range(60)]  # 0.27 of a ratio
    assert found.count(ARMS[1]) >= 55


def test_an_interval_has_its_confidence() -> None:
    assert interval([0.1])[0] == 0
    drawn = random.Random(0)
    for count in (6, 20):
        inside = 0
        for _ in range(2000):
            low, _, high = interval([drawn.gauss(0.0, 0.3) for _ in range(count)])
            inside += low <= 1.0 <= high
        assert abs(inside / 2000 - CONFIDENCE) < 0.006


def test_a_change_of_times_is_seen_and_none_is_not() -> None:
    drawn = random.Random(0)
    usual = [drawn.lognormvariate(0, 0.1) for _ in range(2000)]
    watch = Watch()
    assert not any([watch.feed(one) for one in usual])
    assert any([watch.feed(1.5 * one) for one in usual[:512]])
    slower = Watch()
    assert not any([slower.feed(one) for one in usual[:400]])
    assert any([slower.feed(one / 1.5) for one in usual[:512]])


def test_single_late_calls_are_no_change() -> None:
    drawn = random.Random(1)
    watch = Watch()
    times = [drawn.lognormvariate(0, 0.1) * (20 if drawn.random() < 0.1 else 1) for _ in range(3000)]
    assert not any([watch.feed(one) for one in times])
