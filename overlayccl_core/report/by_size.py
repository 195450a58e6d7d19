"""Lines over a size that doubles, with intervals: the figures of both sweeps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from overlayccl_core.report.blocks import Figure
from overlayccl_core.report.charts import Ink, by_look, figure, is_narrow, log_ticks, named

Look = tuple[Ink, Sequence[int]]
"""Colour and dash of a line."""
DASHES: Sequence[Sequence[int]] = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
APART = 0.02  # of a doubling: lines are side by side, so that their intervals are seen


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePoint:
    """A point of a line with its interval, if there is one, and its text."""

    line: str
    size: int
    value: float
    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAxis:
    """The axis of sizes. name: how a size is written."""

    title: str
    name: Callable[[int], str]


def lines(
    title: str,
    caption: str,
    points: Sequence[SizePoint],
    looks: Mapping[str, Look],
    across: SizeAxis,
    up: str,
    *,
    level: float | None = None,
) -> Figure:
    """Draw lines on two logarithmic axes.

    Args:
        looks: line -> its look, in the order of the legend; other lines are not drawn.
        up: Title of the axis of values.
        level: A value with a line of its own, such as 1 for a ratio.
    """
    drawn = [point for point in points if point.line in looks]
    values = [
        value
        for point in drawn
        for value in (point.low, point.value, point.high)
        if value is not None and value > 0
    ]
    values += [level] if level else []
    low, high = min(values) / 1.1, max(values) * 1.1
    sizes = sorted({point.size for point in drawn})
    names = " : ".join(f"datum.value == {size} ? '{across.name(size)}'" for size in sizes) + " : ''"
    present = {line: look for line, look in looks.items() if any(point.line == line for point in drawn)}

    def build(width: int) -> Any:
        shown = sizes[:: 1 + len(sizes) // 6] if is_narrow(width) else sizes
        x = alt.X(
            "at:Q",
            title=across.title,
            scale=alt.Scale(type="log", base=2, domain=[sizes[0] / 1.15, sizes[-1] * 1.15], nice=False),
            axis=alt.Axis(values=shown, labelExpr=names),
        )
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        axis = alt.Axis(values=log_ticks(low, high))
        y = alt.Y("value:Q", title=up, scale=scale, axis=axis)
        legend = alt.Legend(symbolType="stroke", symbolSize=300)
        color = by_look(
            alt.Color, "line", {line: ink.value for line, (ink, _) in present.items()}, legend=legend
        )
        dash = by_look(
            alt.StrokeDash, "line", {line: dash for line, (_, dash) in present.items()}, legend=legend
        )
        base = alt.Chart(named("points"))
        ends = alt.Y("low:Q", title=up, scale=scale, axis=axis)
        layers = [
            base.mark_rule(strokeWidth=1, opacity=0.6, aria=False)
            .transform_filter("datum.low != null")
            .encode(x=x, y=ends, y2="high:Q", color=color),
            base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=16)).encode(
                x=x, y=y, color=color, strokeDash=dash, description="text:N"
            ),
        ]
        if level:
            rule = alt.Chart(named("level")).mark_rule(color=Ink.MUTED.value, strokeDash=[2, 3], aria=False)
            layers.insert(0, rule.encode(y=y))
        return alt.layer(*layers).properties(height=300)

    middle = (len(present) - 1) / 2
    beside = {line: 2 ** (APART * (number - middle)) for number, line in enumerate(present)}
    rows = [asdict(point) | {"at": point.size * beside[point.line]} for point in drawn]
    return figure(title, caption, build, {"points": rows, "level": [{"value": level}] if level else []})
