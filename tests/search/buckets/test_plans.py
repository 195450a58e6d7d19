"""Buckets: the dynamic program against all partitions, against the rules that people use, against torch."""

import time
from dataclasses import replace
from itertools import combinations
from math import inf

import numpy as np
import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import empty

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.costmodel.beside import Shares
from overlayccl_core.rewrites import joining
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rules import merge
from overlayccl_core.search.buckets import plans as buckets
from overlayccl_core.search.buckets.costs import BucketCosts, BucketParts, Curve
from overlayccl_core.search.buckets.gradients import Gradient
from overlayccl_core.search.buckets.plans import Bounds, planned


def gradients_of(pairs: list[tuple[int, float]]) -> list[Gradient]:
    """(KiB, ready ms) of each, sorted by readiness."""
    ordered = sorted(pairs, key=lambda pair: pair[1])
    return [
        Gradient(name=f"t{i}", bytes=1024 * kib, ready_us=1e3 * ms) for i, (kib, ms) in enumerate(ordered)
    ]


NOTHING = Curve(sizes=(0, MIB), us_at=(0.0, 0.0))
FREE = Shares(cpu=0.0, slower=1.0)  # nothing of the core


def line(fixed_us: float, us_per_byte: float) -> Curve:
    return Curve(sizes=(0, MIB), us_at=(fixed_us, fixed_us + MIB * us_per_byte))


def costs_of(
    fixed: float, packing: float, ms_per_mib: float, launch: float = 0.0, shares: Shares = FREE
) -> BucketCosts:
    slope = 1e3 * ms_per_mib / MIB
    alone = line(fixed, slope)
    packed = line(fixed + packing, 1.25 * slope)
    return BucketCosts(
        alone=BucketParts(before=NOTHING, call=alone, after=NOTHING),
        packed=BucketParts(before=NOTHING, call=packed, after=NOTHING),
        launch_us=launch,
        shares=lambda _size: shares,
        low=0.9,
        high=1.2,
    )


def every_partition(count: int) -> list[Bounds]:
    return [(*cuts, count) for k in range(count) for cuts in combinations(range(1, count), k)]


some_gradients = st.lists(
    st.tuples(st.integers(1, 4000), st.one_of(st.integers(0, 5).map(float), st.floats(0, 40))),
    min_size=1,
    max_size=9,
).map(gradients_of)
some_costs = st.builds(
    costs_of,
    st.sampled_from([0.0, 50.0, 1e3, 9e3]),
    st.sampled_from([0.0, 20.0, 500.0]),
    st.sampled_from([0.0, 0.1, 2.0, 9.0]),
    st.sampled_from([0.0, 30.0, 6e3]),
)


@settings(max_examples=150, deadline=None)
@given(some_gradients, some_costs)
def test_no_partition_ends_earlier_where_calls_take_nothing_of_the_core(
    gradients: list[Gradient], costs: BucketCosts
) -> None:
    best = buckets.uncontended(gradients, costs)
    end = planned("", gradients, best, costs).end_us
    ends = {b: planned("", gradients, b, costs).end_us for b in every_partition(len(gradients))}
    assert end == pytest.approx(min(ends.values()), rel=1e-8)
    fewest = min(len(b) for b, e in ends.items() if e <= min(ends.values()) * (1 + 1e-10))
    assert len(best) <= fewest


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_rule_that_people_use_ends_earlier(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 60))
    sizes = np.exp(random.uniform(np.log(1), np.log(40_000), count)).astype(int)
    ready = random.uniform(0, random.choice([1.0, 30.0, 500.0]), count)
    gradients = gradients_of([(int(s), float(t)) for s, t in zip(sizes, ready, strict=True)])
    costs = costs_of(float(random.choice([30, 900])), 20.0, float(random.choice([0.05, 1.0])))
    best = buckets.best(gradients, costs).end_us * (1 - 1e-8)
    assert best <= buckets.best_cap(gradients, costs)[1].end_us
    assert best <= buckets.best_knob(gradients, costs)[1].end_us
    for bounds in ((count,), tuple(range(1, count + 1))):
        assert best <= planned("", gradients, bounds, costs).end_us


def test_a_large_cap_is_written_without_an_exponent() -> None:
    gradients = gradients_of([(600 * 1024, 1.0)] * 4)  # 2,400 MiB
    cap, _ = buckets.best_cap(gradients, costs_of(9e3, 0.0, 0.001))
    assert cap == "2400"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=25),
    st.lists(st.integers(1, 4000), min_size=1, max_size=3),
)
def test_the_rule_of_ddp_is_torchs_own(kib: list[int], caps_kib: list[int]) -> None:
    gradients = gradients_of([(k, 0.0) for k in kib])
    tensors = [empty(256 * k, device="meta") for k in kib]
    expected, _ = dist._compute_bucket_assignment_by_size(tensors, [1024 * c for c in caps_kib])
    bounds = buckets.ddp(gradients, [1024 * c for c in caps_kib])
    assert [list(range(a, b)) for a, b in zip((0, *bounds), bounds, strict=False)] == expected


def test_the_defaults_of_ddp_are_torchs_own() -> None:
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == buckets.DDP_FIRST_BYTES
    from torch.nn.parallel import distributed

    assert distributed._DEFAULT_BUCKET_CAP_MB * MIB == buckets.DDP_CAP_BYTES


@settings(max_examples=80, deadline=None)
@given(some_gradients, some_costs)
def test_the_list_of_caps_makes_torch_fill_these_very_buckets(
    gradients: list[Gradient], costs: BucketCosts
) -> None:
    bounds = buckets.uncontended(gradients, costs)
    caps = buckets.cap_list(gradients, planned("", gradients, bounds, costs))
    assert buckets.ddp(gradients, [int(float(cap) * MIB) for cap in caps]) == bounds


@pytest.mark.parametrize("knob", ["all", "1/3", "1/8", "25MiB"])
def test_a_knob_gives_the_buckets_that_the_rule_makes(knob: str) -> None:
    sizes = [3_000_000, 700, 5_000_000, 40, 40, 900_000, 4_000_000, 12]
    case = catalog.case("grad_ar", {"sizes": sizes, "overlap": True}, ranks=4, ranks_per_node=4)
    alone = replay(Recipe(base="reduce_back_to_back"), catalog.build(case))
    (site,) = site_classes(alone, merge.KINDS)
    made = apply(alone, ("merge", site, knob))
    gradients = [Gradient(name=str(i), bytes=4 * n, ready_us=0.0) for i, n in enumerate(reversed(sizes))]
    bounds = buckets.at_most(gradients, joining.cap_bytes(knob, 4 * sum(sizes)))
    plan = planned("", gradients, bounds, costs_of(1.0, 1.0, 1.0))
    assert sorted(b.bytes for b in plan.buckets) == sorted(x.bytes for x in made.collectives)


def test_without_ready_times_one_buffer_is_the_answer() -> None:
    gradients = gradients_of([(k, 0.0) for k in (1, 4, 512, 2048, 9, 9)])
    assert len(buckets.best(gradients, costs_of(700.0, 30.0, 1.0)).buckets) == 1


def test_large_gradients_far_apart_go_one_by_one_and_small_ones_together() -> None:
    costs = costs_of(1000.0, 20.0, 1.0)
    apart = gradients_of([(1024, 100.0 * i) for i in range(4)])
    assert buckets.uncontended(apart, costs)[-2:] == (3, 4)
    close = gradients_of([(4, 0.01 * i) for i in range(4)])
    assert buckets.uncontended(close, costs) == (4,)


def test_the_more_of_the_core_a_call_takes_the_fewer_buckets_are_best() -> None:
    """Eight tensors become ready in 80 ms; a call of 5 ms and 1 ms a MiB hides behind the rest, or stops it."""
    gradients = gradients_of([(1024, 10.0 * i) for i in range(1, 9)])
    free, dear = (costs_of(5e3, 0.0, 1.0, shares=Shares(cpu=cpu, slower=1.0)) for cpu in (0.0, 1.0))
    ends = {name: buckets.best(gradients, costs) for name, costs in (("free", free), ("dear", dear))}
    assert ends["free"].end_us == pytest.approx(80e3 + 6e3) and len(ends["free"].buckets) == 3
    assert ends["dear"].end_us == pytest.approx(80e3 + 5e3 + 10e3) and len(ends["dear"].buckets) == 1


def test_packing_stops_the_backward_pass_and_what_follows_a_call_waits_for_its_end() -> None:
    gradients, call = gradients_of([(1024, 10.0), (1024, 20.0)]), costs_of(5e3, 0.0, 0.0).alone.call
    parts = BucketParts(before=line(2e3, 0.0), call=call, after=line(1e3, 0.0))
    costs = replace(costs_of(0.0, 0.0, 0.0), alone=parts, packed=parts)
    plan = planned("", gradients, (1, 2), costs)
    assert [b.start_us for b in plan.buckets] == pytest.approx([12e3, 24e3])
    assert [b.end_us for b in plan.buckets] == pytest.approx([17e3, 29e3]) and plan.end_us == pytest.approx(
        30e3
    )


def test_a_plan_follows_the_recurrence_and_its_range_scales_costs_not_ready_times() -> None:
    gradients = gradients_of([(1024, 10.0), (1024, 12.0), (1024, 100.0)])
    plan = planned("", gradients, (1, 2, 3), costs_of(5000.0, 0.0, 1.0))
    assert [(b.start_us, b.end_us) for b in plan.buckets] == [(1e4, 1.6e4), (1.6e4, 2.2e4), (1e5, 1.06e5)]
    assert plan.low_us == pytest.approx(1e5 + 0.9 * 6e3) and plan.high_us == pytest.approx(1e5 + 1.2 * 6e3)


def test_what_a_plan_saves_lies_in_its_interval() -> None:
    together = gradients_of([(1024, 0.0)] * 4)
    plans = [planned("", together, bounds, costs_of(5000.0, 0.0, 1.0)) for bounds in ((1, 2, 3, 4), (4,))]
    value, low, high = buckets.saved_us(*plans)
    assert (low, value, high) == pytest.approx((0.9 * 14e3, 14e3, 1.2 * 14e3))
    assert buckets.saved_us(*plans[::-1]) == pytest.approx((-value, -high, -low))


@pytest.mark.parametrize(
    ("ready_ms", "expected"), [(6.0, (500.0, -600.0, 1050.0)), (7.0, (1500.0, 400.0, 1500.0))]
)
def test_the_interval_of_what_is_saved_is_the_right_way_round(
    ready_ms: float, expected: tuple[float, float, float]
) -> None:
    """The dearer a call, the less is hidden by a second one: at 7 ms neither end of the range saves the most."""
    late = gradients_of([(1024, 0.0), (1024, ready_ms)])
    one, two = (planned("", late, bounds, costs_of(6000.0, 0.0, 1.0)) for bounds in ((2,), (1, 2)))
    assert buckets.saved_us(one, two) == pytest.approx(expected)


def test_three_hundred_gradients_take_well_under_a_second() -> None:
    random = np.random.default_rng(3)
    gradients = gradients_of([(int(k), float(t)) for k, t in random.uniform(1, 300, (300, 2))])
    started, shortest = 0.0, inf
    for _ in range(3):
        started = time.perf_counter()
        buckets.uncontended(gradients, costs_of(400.0, 20.0, 0.3))
        shortest = min(shortest, time.perf_counter() - started)
    assert shortest < 0.5


def test_gradients_out_of_order_are_refused() -> None:
    gradients = gradients_of([(1, 1.0), (1, 2.0)])[::-1]
    with pytest.raises(ValueError, match="order of readiness"):
        buckets.uncontended(gradients, costs_of(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="at least one gradient"):
        buckets.uncontended([], costs_of(1.0, 1.0, 1.0))
