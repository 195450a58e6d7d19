"""Plans of gradient buckets, in the order of readiness, and when each is over by the price in the step.

A plan's end (`planned`) is walked as a step is: the backward pass computes on the rank's core, calls queue on the
link and take their part of the core. No exact search knows that, so the best plan is the best of some: those of the
common rules, and those that dynamic programming finds where calls take nothing of the core,
`end(b) = max(ready(b), end(b - 1)) + cost(b)`, at the real costs and at dearer ones, which give fewer buckets.
There `end` never falls when an earlier end rises, so the best end of every prefix is enough to know: O(T^2) for T
tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.measuring.figures import figures
from overlayccl_core.rewrites import joining
from overlayccl_core.search.buckets.costs import BucketCosts, Floats
from overlayccl_core.search.buckets.gradients import Gradient
from overlayccl_core.step.price import Rank, StepCost

# torch.distributed._DEFAULT_FIRST_BUCKET_BYTES and DistributedDataParallel's bucket_cap_mb (torch 2.13).
DDP_FIRST_BYTES, DDP_CAP_BYTES = MIB, 25 * MIB
CAPS = 60  # equal caps to try, log-spaced between the smallest tensor and all of them
DEARER = (1.0, 1.5, 2.5, 4.0, 8.0)  # the more of the core calls take, the fewer buckets are best
LINK = "link"
SAME = 1e-9  # relative: ends closer than this are equal
SHOWN = 1e-3  # relative: a smaller difference shows in no figure
Bounds = tuple[int, ...]
"""Ends of buckets: [k] tensors before the end of bucket k, the last one being all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Gradients reduced in one buffer; ready, issued and over: times since the backward pass began."""

    tensors: tuple[str, ...]
    bytes: int
    ready_us: float
    start_us: float
    end_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Buckets in order, and the end of the last one: its prediction and 10% to 90% range."""

    name: str
    buckets: tuple[Bucket, ...]
    end_us: float
    low_us: float
    high_us: float


def uncontended(gradients: Sequence[Gradient], costs: BucketCosts, dearer: float = 1.0) -> Bounds:
    """Return the buckets with the earliest end if calls take nothing of the core, the fewest of equals.

    Args:
        dearer: By what factor each bucket costs more than it does.

    Raises:
        ValueError: No gradients, or not in order.
    """
    if not gradients:
        raise ValueError("buckets need at least one gradient (got none)")
    ready = np.array([g.ready_us for g in gradients])
    if np.any(np.diff(ready) < 0):
        raise ValueError("gradients must be in the order of readiness: sort them by ready_us")
    before = np.concatenate([[0.0], np.cumsum([float(g.bytes) for g in gradients])])
    T = len(gradients)
    bucket_us = [dearer * costs.ending_at(before, j) for j in range(1, T + 1)]
    for us in bucket_us:
        us[0] += dearer * costs.launch_us  # with the first bucket
    ends = np.zeros(T + 1)
    of_any_number = _bucket_more(ready, bucket_us, ends, ends)
    layer = np.full(T + 1, np.inf)  # ends after exactly so many buckets
    layer[0] = 0.0
    previous: list[NDArray[np.int64]] = []
    for _ in _traced([of_any_number], T):
        following = np.full(T + 1, np.inf)
        previous.append(_bucket_more(ready, bucket_us, layer, following))
        layer = following
        if layer[T] <= ends[T] * (1 + SAME):
            break
    return _traced(previous[::-1], T)


def _bucket_more(ready: Floats, bucket_us: Sequence[Floats], ends: Floats, into: Floats) -> NDArray[np.int64]:
    """Fill `into` with the best ends of every prefix after one bucket more; return where that bucket begins.

    Args:
        bucket_us: [T]: of each last tensor, costs of the buckets that end with it.
        ends: Of every prefix: [T + 1]. The same array as `into`: after any number of buckets.
    """
    begins = np.zeros(len(ends), np.int64)
    for j in range(1, len(ends)):
        candidates = np.maximum(ready[j - 1], ends[:j]) + bucket_us[j - 1]
        begins[j] = candidates.argmin()
        into[j] = candidates[begins[j]]
    return begins


def _traced(previous: Sequence[NDArray[np.int64]], tensors: int) -> Bounds:
    """Trace bounds from the end to the start; a single table serves for every bucket."""
    bounds: list[int] = []
    at = tensors
    while at:
        bounds.append(at)
        at = int(previous[min(len(bounds) - 1, len(previous) - 1)][at])
    return tuple(reversed(bounds))


def planned(name: str, gradients: Sequence[Gradient], bounds: Bounds, costs: BucketCosts) -> Plan:
    """Return the plan of some buckets."""
    buckets, end = _walked(gradients, bounds, costs, 1.0)
    low, high = (_walked(gradients, bounds, costs, factor)[1] for factor in (costs.low, costs.high))
    return Plan(name=name, buckets=buckets, end_us=end, low_us=low, high_us=high)


def best(gradients: Sequence[Gradient], costs: BucketCosts, others: Sequence[Plan] = ()) -> Plan:
    """Return the plan that ends earliest, the one of fewest buckets among equals, of some and of `others`."""
    found = {(len(gradients),), *(uncontended(gradients, costs, dearer) for dearer in DEARER)}
    plans = [*(planned("best", gradients, bounds, costs) for bounds in sorted(found)), *others]
    first = min(plan.end_us for plan in plans) * (1 + SAME)
    least = min((plan for plan in plans if plan.end_us <= first), key=lambda plan: len(plan.buckets))
    return replace(least, name="best")


def _walked(
    gradients: Sequence[Gradient], bounds: Bounds, costs: BucketCosts, factor: float
) -> tuple[tuple[Bucket, ...], float]:
    """Return the buckets and the end of all, with costs times `factor`: the backward pass, then the rest."""
    rank, before_us, flights, first = Rank(), 0.0, [], 0
    for last in bounds:
        members = gradients[first:last]
        size, parts = sum(g.bytes for g in members), costs.of(len(members))
        rank.compute(members[-1].ready_us - before_us)
        before_us = members[-1].ready_us
        rank.compute(factor * float(parts.before.us(size)))
        launch_us = 0.0 if first else costs.launch_us
        us, shares = factor * (float(parts.call.us(size)) + launch_us), costs.shares(size)
        cost = StepCost(us=us, cpu_us=shares.cpu * us, beside=shares.slower, link=LINK)
        flights.append((members, size, rank.now_us, rank.issue(cost), factor * float(parts.after.us(size))))
        first = last
    buckets: list[Bucket] = []
    for members, size, issued_us, flight, after_us in flights:
        rank.wait(flight)
        rank.compute(after_us)
        start_us = max(issued_us, buckets[-1].end_us) if buckets else issued_us
        buckets.append(
            Bucket(
                tensors=tuple(g.name for g in members),
                bytes=size,
                ready_us=members[-1].ready_us,
                start_us=start_us,
                end_us=flight.end_us,
            )
        )
    return tuple(buckets), rank.now_us


def saved_us(before: Plan, after: Plan) -> tuple[float, float, float]:
    """Return (us by which `after` ends earlier, least, most) over the 10% to 90% range, one factor for both.

    Savings need not grow with the prices: dearer calls hide less.
    """
    savings = (before.end_us - after.end_us, before.low_us - after.low_us, before.high_us - after.high_us)
    return savings[0], min(savings), max(savings)


def ddp(gradients: Sequence[Gradient], caps_bytes: Sequence[int]) -> Bounds:
    """Apply torch's compute_bucket_assignment_by_size (reducer.cpp).

    The tensor that reaches a bucket's cap closes it, so it may be larger; the last cap holds for all further
    buckets. DistributedDataParallel uses this in the order of readiness, from the second step on.
    """
    bounds, filled, caps = [], 0, list(caps_bytes)
    for at, g in enumerate(gradients, 1):
        filled += g.bytes
        if filled >= caps[0]:
            bounds.append(at)
            filled = 0
            caps = caps[1:] or caps
    return tuple(bounds) if bounds and bounds[-1] == len(gradients) else (*bounds, len(gradients))


def at_most(gradients: Sequence[Gradient], limit_bytes: Fraction) -> Bounds:
    """Cut before a tensor exceeds the limit; a larger one is alone (as in known ways and `merge`)."""
    bounds, filled = [], 0
    for at, g in enumerate(gradients):
        if at and filled + g.bytes > limit_bytes:
            bounds.append(at)
            filled = 0
        filled += g.bytes
    return (*bounds, len(gradients))


def best_cap(gradients: Sequence[Gradient], costs: BucketCosts) -> tuple[str, Plan]:
    """Return (bucket_cap_mb, its plan): by torch's rule, the largest equal cap with the earliest end (SHOWN)."""
    smallest, total = min(g.bytes for g in gradients), sum(g.bytes for g in gradients)
    ladder = {figures(cap / MIB).replace(",", "") for cap in np.geomspace(smallest, total, CAPS)} | {"25"}
    plans = {
        cap: planned(f"bucket_cap_mb={cap}", gradients, ddp(gradients, [int(float(cap) * MIB)]), costs)
        for cap in sorted(ladder, key=float, reverse=True)
        if int(float(cap) * MIB) > 0
    }
    first = min(plan.end_us for plan in plans.values())
    return next(item for item in plans.items() if item[1].end_us <= first * (1 + SHOWN))


def best_knob(gradients: Sequence[Gradient], costs: BucketCosts) -> tuple[str, Plan]:
    """Return (knob of the rule `merge`, its plan) with the earliest end."""
    total = sum(g.bytes for g in gradients)
    plans = {
        knob: planned(f"merge {knob}", gradients, at_most(gradients, joining.cap_bytes(knob, total)), costs)
        for knob in (joining.ALL, *joining.SHARES, *joining.CAPS)
    }
    return min(plans.items(), key=lambda item: item[1].end_us)


def cap_list(gradients: Sequence[Gradient], plan: Plan) -> tuple[str, ...]:
    """Return the bucket_cap_mb_list that makes torch's rule give these very buckets.

    Each cap is the shortest number of MiB reached by the bucket's last tensor only.
    """
    sizes = {g.name: g.bytes for g in gradients}
    return tuple(_shortest(b.bytes - sizes[b.tensors[-1]], b.bytes) for b in plan.buckets)


def _shortest(above: int, up_to: int) -> str:
    """Return the shortest decimal number of MiB with bytes, cut to an integer, in (above, up_to]."""
    for digits in range(1, 20):
        text = f"{np.floor(up_to / MIB * 10**digits) / 10**digits:.{digits}f}"
        if above < int(float(text) * MIB) <= up_to:
            return text.rstrip("0").rstrip(".")
    return repr(up_to / MIB)
