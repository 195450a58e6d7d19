"""A captured step at a glance: what its calls are, what they cost, which could be made in another way."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.observing.fits import CAPTURED, fits
from overlayccl_core.observing.meaning import meaning
from overlayccl_core.observing.regions import Fence, Region, cut
from overlayccl_core.observing.step import CapturedStep, steps
from overlayccl_core.program.case import BUS_FACTORS
from overlayccl_core.tables.captured import CaptureSource

NO_FLOW = "It does not tell which calls are made from which, so no other way of making them is offered."
GAPS = {
    CaptureSource.SCRIPT: (),
    CaptureSource.FAKE: (
        "No times of communication: one rank alone was recorded, on torch's fake process group, whose calls "
        "return at once. Sizes, order, dependencies and lines are the script's; the step's time is that of "
        "computing here.",
        "The values were garbage: counts that a rank got from others, and what depends on a loss, may differ. The "
        "other ranks are taken to call alike, each in its own groups.",
    ),
    CaptureSource.PROFILER: (
        f"Of a profiler's trace: sizes and times. {NO_FLOW}",
        "It does not tell how long the script waits, nor the reductions. It tells lines (of the calling functions) "
        "with with_stack=True, shapes with record_shapes=True, and of gloo the group only where there is one.",
    ),
    CaptureSource.FLIGHT_RECORDER: (
        f"Of a flight recorder's dump: sizes, order and lines; no time but that of the issue. {NO_FLOW}",
        "It does not know training steps: the shortest sequence of calls that comes again up to the end counts as "
        "one. It does not tell reductions; gloo leaves out sends and receives.",
    ),
}
"""What the table of a source lacks, and why."""
ON_DEVICE = (
    "The calls are made on a device, and return before they are over: no times of communication. A trace of "
    "torch.profiler has those of the kernels (--from)."
)
ALIKE = (
    "line",
    "part",
    "kind",
    "reduction",
    "dtype",
    "inputs_bytes",
    "outputs_bytes",
    "group_ranks",
    "parameters",
)
"""Calls alike in these are a site."""


@dataclass(frozen=True, kw_only=True)
class CallSite:
    """Calls that one line makes in a step, and that are alike.

    Attributes:
        line: `file:line`; empty if it is not known.
        meaning: What they are, in the script's words.
        bytes: What a rank gives in each; gets, where it gives nothing.
        ranks: Size of their group; None if it is not known.
        cost_us: Time in the calls and in their waits, of all calls; None if the source does not tell.
        flight_us: Time from issue to end, of all calls; None if the source does not tell.
        step_share: `cost_us` of the step.
        busbw_gbps: By `flight_us`, so with the wait for ranks that come later; None if the source or nccl-tests
            (`BUS_FACTORS`) does not tell.
        stays: Why they must stay as they are; empty if there are other ways; None if the source does not tell.
        problem: The Problem that they are a part of; None if they are of none, or the source does not tell.
    """

    line: str
    meaning: str
    kind: str
    reduction: str | None
    dtype: str
    bytes: int
    ranks: int | None
    calls: int
    cost_us: float | None
    flight_us: float | None
    step_share: float | None
    busbw_gbps: float | None
    stays: str | None
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class FreeRegion:
    """Calls one after the other that may be made in another way, together: a Case of the Problem `captured`.

    Attributes:
        kinds: Kind -> how many calls.
        groups: How many groups the ranks are in.
        times: How many such regions the step has.
    """

    kinds: Mapping[str, int]
    dtype: str
    ranks: int
    groups: int
    times: int


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A step, by its slowest rank: the one that is longest in calls and their waits.

    Attributes:
        ranks: How many ranks the table has, of `world_size`.
        calls: Of the step.
        alike: Whether the recorded steps make the same calls.
        sites: The dearest first.
        free: How many calls have other ways; None if the source does not tell.
        fences: Why calls must stay -> how many.
        gaps: What the table lacks, and why.
    """

    source: str
    world_size: int
    ranks: int
    rank: int
    calls: int
    step_us: float | None
    blocked_us: float | None
    hidden_share: float | None
    alike: bool
    sites: tuple[CallSite, ...]
    free: int | None
    regions: tuple[FreeRegion, ...]
    fences: Mapping[str, int]
    gaps: tuple[str, ...]


def overview(captured: pl.DataFrame) -> Overview:
    """Return the overview of a table `captured_calls`."""
    ranks = steps(captured)
    slowest = max(ranks, key=lambda one: one.blocked_us or 0.0)
    has_flow = not slowest.calls["depends_on"].null_count()
    regions, fences = cut(captured) if has_flow else ([], [])
    calls = list(slowest.calls.iter_rows(named=True))
    source = CaptureSource(captured["source"][0])
    return Overview(
        source=source,
        world_size=captured["world_size"][0],
        ranks=len(ranks),
        rank=slowest.rank,
        calls=len(calls),
        step_us=slowest.step_us,
        blocked_us=slowest.blocked_us,
        hidden_share=slowest.hidden_share,
        alike=all(one.alike for one in ranks),
        sites=tuple(_sites(slowest, fences, _problems(captured, slowest.rank) if has_flow else None)),
        free=sum(len(run) for one in regions for run in one.runs) if has_flow else None,
        regions=tuple(_region(one, calls) for one in regions),
        fences=dict(Counter(fence.why for fence in fences).most_common()),
        gaps=_gaps(source, slowest),
    )


def _gaps(source: CaptureSource, step: CapturedStep) -> tuple[str, ...]:
    untimed = source == CaptureSource.SCRIPT and step.on_device
    return (*GAPS[source], ON_DEVICE) if untimed else GAPS[source]


def _problems(captured: pl.DataFrame, rank: int) -> dict[int, str | None]:
    """Return the Problem of each call of a rank; None: no other than that of any captured call."""
    of_rank = fits(captured).filter(rank=rank).iter_rows(named=True)
    return {row["call"]: None if row["problem"] == CAPTURED else row["problem"] for row in of_rank}


def _sites(
    step: CapturedStep, fences: Sequence[Fence], problems: Mapping[int, str | None] | None
) -> list[CallSite]:
    calls = list(step.calls.iter_rows(named=True))
    why = {fence.call: fence.why for fence in fences}
    by_site: dict[object, list[Mapping[str, Any]]] = {}
    for call in calls:
        by_site.setdefault(repr([call[name] for name in ALIKE]), []).append(call)
    sites = []
    for alike in by_site.values():
        first, cost, flight = _merged(alike), _sum(alike, "cost_us"), _sum(alike, "flight_us")
        numbers = [call["call"] for call in alike]
        problem = None if problems is None else problems[numbers[0]]
        sites.append(
            CallSite(
                line=first["line"],
                meaning=meaning(first, problem),
                kind=first["kind"],
                reduction=first["reduction"],
                dtype=first["dtype"],
                bytes=first["inputs_bytes"] or first["outputs_bytes"],
                ranks=len(first["group_ranks"]) or None,
                calls=len(alike),
                cost_us=cost,
                flight_us=flight,
                step_share=cost / step.step_us if cost is not None and step.step_us else None,
                busbw_gbps=_busbw_gbps(alike, flight),
                stays=None if problems is None else next((why[one] for one in numbers if one in why), ""),
                problem=problem,
            )
        )
    return sorted(sites, key=_dearness, reverse=True)


def _busbw_gbps(alike: Sequence[Mapping[str, Any]], flight_us: float | None) -> float | None:
    """Return the busbw of calls in 10^9 bytes a second; None if there is none, or it cannot be told.

    The larger side of a call is its size in nccl-tests. Calls whose end nobody saw have none.
    """
    first, ends = alike[0], all(call["done_us"] is not None or call["used_us"] is not None for call in alike)
    factor, ranks = BUS_FACTORS.get(first["kind"]), len(first["group_ranks"])
    if factor is None or not ranks or not ends or not flight_us:
        return None
    size_bytes = max(first["inputs_bytes"], first["outputs_bytes"]) * len(alike)
    return float(size_bytes * factor(ranks) / flight_us / 1e3)


def _merged(alike: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the first call, without the root and the peer that others do not share."""
    differing = {name: None for name in ("root", "peer") if len({call[name] for call in alike}) > 1}
    return {**alike[0], **differing}


def _dearness(site: CallSite) -> tuple[float, float, int]:
    return site.cost_us or 0.0, site.flight_us or 0.0, site.bytes * site.calls


def _sum(calls: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [call[name] for call in calls]
    return None if None in values else float(sum(values))


def _region(region: Region, calls: Sequence[Mapping[str, Any]]) -> FreeRegion:
    kinds = Counter(
        " ".join(filter(None, (calls[n]["kind"], calls[n]["reduction"])))
        for n in region.runs[0]
        if n < len(calls)
    )
    return FreeRegion(
        kinds=dict(kinds),
        dtype=region.dtype,
        ranks=len(region.groups[0]),
        groups=len(region.groups),
        times=len(region.runs),
    )
