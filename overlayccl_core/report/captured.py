"""The training step that a run's Cases are of: its calls, by site, and when they were under way."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.observing.overview import CallSite, Overview, overview
from overlayccl_core.observing.step import steps
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    Text,
    bandwidth,
    count,
    ms,
    percent,
    table_of,
)
from overlayccl_core.report.charts import Ink, by_look, figure, named
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.captured import CAPTURED_CALLS

SITES = 20
FLIGHT, BLOCKED = "in flight", "the script is in the call or waits"
CAPTION = (
    "One step of the rank that waits longest, the step of median length: a row for each line of the script. "
    "What is in flight while the script goes on is hidden."
)


@sourced
def blocks(tree: Tree) -> Iterator[Block]:
    """Yield the section's blocks; none where the Cases are of no captured step."""
    captured = tree.table(CAPTURED_CALLS, CAPTURED_CALLS.name)
    if captured is None:
        return
    step = overview(captured)
    yield Text(text=_lead(step))
    if not step.alike:
        yield Text(text="Not all recorded steps make the same calls: this is the last of them.")
    yield from (Text(text=gap) for gap in step.gaps)
    yield table_of("Calls of the step", step.sites[:SITES], COLUMNS, numeric=frozenset({2, 4, 5, 6, 7, 8}))
    if step.blocked_us is not None:
        yield timeline(captured, step.rank)
    if step.fences:
        why = ", ".join(f"{number}: {reason}" for reason, number in step.fences.items())
        yield Text(text=f"Calls that stay as the script has them: {why}.")


def _lead(step: Overview) -> str:
    parts = [f"{count(step.world_size, 'rank')}, {count(step.calls, 'call')} a step"]
    if step.step_us is not None:
        parts.append(f"a step takes {ms(step.step_us)}")
    if step.blocked_us is not None:
        parts.append(f"rank {step.rank} is in calls or waits for them {ms(step.blocked_us)} of it")
    if step.hidden_share is not None:
        parts.append(f"{percent(step.hidden_share)} of the communication is hidden")
    if step.free is not None:
        parts.append(f"{count(step.free, 'call')} may be made in other ways")
    return "; ".join(parts) + "."


def _where(line: str) -> str:
    return PurePath(line).name or NOTHING


def _ways(site: CallSite) -> str:
    if site.stays is None:
        return NOTHING
    return f"stays: {site.stays}" if site.stays else site.problem or "yes"


COLUMNS = {
    "line": lambda site: _where(site.line),
    "what": lambda site: site.meaning,
    "calls": lambda site: str(site.calls),
    "call": lambda site: " ".join(filter(None, (site.kind, site.reduction, site.dtype))),
    "size": lambda site: bytes_text(site.bytes),
    "ranks": lambda site: str(site.ranks or NOTHING),
    "time a step": lambda site: ms(site.cost_us),
    "share": lambda site: percent(site.step_share),
    "busbw GB/s": lambda site: bandwidth(site.busbw_gbps),
    "other ways": _ways,
}


def timeline(captured: pl.DataFrame, rank: int) -> Figure:
    """Return when the calls of one rank's step were under way, a row for each line of the script."""
    (step,) = (one for one in steps(captured) if one.rank == rank)
    bars = [bar for call in step.calls.iter_rows(named=True) for bar in _bars(call)]
    order = list(dict.fromkeys(bar["line"] for bar in bars))

    def build(_: int) -> Any:
        marks = alt.Chart(named("bars")).mark_bar(height=9)
        return marks.encode(
            x=alt.X("begin:Q", title="ms since the step began"),
            x2="end:Q",
            y=alt.Y("line:N", title=None, sort=order),
            color=by_look(alt.Color, "what", {FLIGHT: Ink.SKY.value, BLOCKED: Ink.ORANGE.value}),
            description="text:N",
        ).properties(height=24 * len(order) + 20)

    return figure("When calls are under way", CAPTION, build, {"bars": bars})


def _bars(call: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spans = [(FLIGHT, call["issued_us"], call["flight_us"]), (BLOCKED, call["issued_us"], call["call_us"])]
    if call["used_us"] is not None:
        spans.append((BLOCKED, call["used_us"], call["blocked_us"]))
    for what, begin, length in spans:
        text = f"{call['kind']} of {bytes_text(call['inputs_bytes'])}: {what}, {ms(length)}"
        yield {
            "line": _where(call["line"]),
            "what": what,
            "text": text,
            "begin": begin / 1e3,
            "end": (begin + length) / 1e3,
        }
