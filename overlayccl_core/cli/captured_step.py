"""A captured step on one screen."""

from collections.abc import Iterator
from pathlib import PurePath

from rich.console import RenderableType

from overlayccl_core.cli.render import NOTHING, at_joints, bandwidth, ms, percent, plain_table
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.observing.overview import CallSite, FreeRegion, Overview

SITES = 10
WIDTH = 44
LEGEND = (
    "ms a step: in the calls and their waits; share: of the step. other ways: the Problem that the call is a part "
    "of, if it may be made in another way; else why it stays as it is."
)
BUSBW = "busbw: as in nccl-tests, of the time in flight, waiting for later ranks included."
HIDDEN = (
    "hidden: of the time that communication is in flight, the part in which the script neither makes a call nor "
    "waits. In flight: from its issue to its end, or to the end of its wait where only that is seen."
)


def parts(step: Overview) -> Iterator[RenderableType]:
    """Yield the lines and the table of the screen."""
    yield from _head(step)
    yield _table(step)
    rest = step.sites[SITES:]
    if rest:
        known = [site.cost_us for site in rest if site.cost_us is not None]
        yield f"And {len(rest)} cheaper sites{f', {ms(sum(known))} ms together' if known else ''}: --json has all."
    if step.blocked_us is not None:
        yield LEGEND
    if any(site.busbw_gbps is not None for site in step.sites):
        yield BUSBW
    if step.hidden_share is not None:
        yield HIDDEN
    if step.free is not None:
        yield from _ways(step)


def _head(step: Overview) -> Iterator[str]:
    ranks = f"{step.world_size} ranks" + (
        f" ({step.ranks} of them seen)" if step.ranks < step.world_size else ""
    )
    takes = "" if step.step_us is None else f" A step takes {ms(step.step_us)} ms."
    yield f"{ranks}, {step.calls} calls a step.{takes}"
    if step.blocked_us is not None and step.step_us:
        share = f"{100 * step.blocked_us / step.step_us:.0f}%"
        hidden = "" if step.hidden_share is None else f" Hidden: {100 * step.hidden_share:.0f}%."
        yield (
            f"Rank {step.rank}, the slowest, is in calls or waits for them {ms(step.blocked_us)} ms of it, {share}."
            f"{hidden}"
        )
    if not step.alike:
        yield "Not all recorded steps make the same calls: this is the last of them."
    yield from step.gaps


def _table(step: Overview) -> RenderableType:
    timed = step.blocked_us is not None
    in_flight = not timed and any(site.flight_us is not None for site in step.sites)
    times = [">ms a step", ">share"] if timed else [">ms in flight"] if in_flight else []
    busbw = [">busbw GB/s"] * any(site.busbw_gbps is not None for site in step.sites)
    ways = ["other ways"] if step.free is not None else []
    table = plain_table(
        None,
        "line",
        ">calls",
        "what",
        "call",
        ">size",
        ">ranks",
        *times,
        *busbw,
        *ways,
        fold=("what", "other ways", "call", ">busbw GB/s"),
    )
    for site in step.sites[:SITES]:
        shown = [ms(site.cost_us), percent(site.step_share)] if timed else [ms(site.flight_us)] * in_flight
        table.add_row(
            at_joints(PurePath(site.line).name or NOTHING, WIDTH),
            str(site.calls),
            site.meaning,
            _call(site),
            bytes_text(site.bytes),
            str(site.ranks or NOTHING),
            *shown,
            *([bandwidth(site.busbw_gbps)] if busbw else []),
            *([_ways_of(site)] if ways else []),
        )
    return table


def _ways_of(site: CallSite) -> str:
    return f"stays: {site.stays}" if site.stays else site.problem or "yes"


def _call(site: CallSite) -> str:
    return " ".join(filter(None, (site.kind, site.reduction, site.dtype)))


def _ways(step: Overview) -> Iterator[str]:
    yield f"{step.free} of {step.calls} calls may be made in other ways, alone or together in a region:"
    yield from (f"  {_region(one)}" for one in step.regions)
    stay = ", ".join(f"{count}: {why}" for why, count in step.fences.items())
    if stay:
        yield f"The others stay as they are ({stay})."


def _region(one: FreeRegion) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in one.kinds.items())
    where = f"{one.groups} groups of {one.ranks} ranks" if one.groups > 1 else f"all {one.ranks} ranks"
    return f"{kinds} of {one.dtype}, on {where}" + (f", {one.times} times" if one.times > 1 else "")
