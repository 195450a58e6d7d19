"""Step time against memory, of every count of microbatches and arm of a model."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.evidence import splits
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.report.blocks import Figure
from overlayccl_core.report.charts import NARROW, WIDE, Ink, by_look, figure, is_narrow, log_ticks, named
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.tables.deployed import Part

MEMORY = "peak memory of a rank, MiB"
CAPTION = (
    "The number in a mark is M. Lower is faster, further left holds less memory. Dashed: the best that needs no "
    "search at each memory. A deployed arm under this line is worth its search."
)
LOG_FROM = 3  # ratio of an axis's ends: logarithmic from here on
MARK_PX, AXIS_PX = 19, 60
ROLES = {  # colour, shape: no two differ by colour alone
    "deployed": (Ink.BLUE, "diamond"),
    "rival": (Ink.ORANGE, "square"),
    "needs no search": (Ink.GREEN, "circle"),
    "needs search": (Ink.PURPLE, "M0.5,-0.87L1,0L0.5,0.87L-0.5,0.87L-1,0L-0.5,-0.87Z"),
}


def _role(split: SplitRow) -> str:
    if split.part is not Part.BESIDE:
        return "deployed" if split.part is Part.DEPLOYED else "rival"
    return "needs search" if split.needs_search else "needs no search"


def _shown(worth: Worth) -> list[SplitRow]:
    """Return rows with their own time and memory, and the rival; the deployed one on top.

    The chosen module is left out: the file beside it is the same.
    """
    chosen = set(worth.chosen_as.items())
    shown = [
        one
        for one in worth.splits
        if one.peak_memory_bytes
        and (one.timed or _role(one) == "rival")
        and not (one.needs_search and (one.microbatches, one.arm) in chosen)
    ]
    return sorted(shown, key=lambda one: list(ROLES).index(_role(one)), reverse=True)


def frontier(ways: Iterable[SplitRow]) -> list[SplitRow]:
    """Return the Pareto frontier (time, memory) of the arms that need no search, the least memory first."""
    known = [one for one in ways if not one.needs_search and one.peak_memory_bytes]
    known = [one for one in known if one.arm != ArmName.DEPLOYED]
    return splits.frontier(known, held=lambda one: one.peak_memory_bytes or 0, us=lambda one: one.step_us)


def _point(one: SplitRow) -> dict[str, Any]:
    assert one.peak_memory_bytes is not None  # the caller checked
    return {
        "mib": one.peak_memory_bytes / MIB,
        "ms": one.step_us / 1e3,
        "m": str(one.microbatches),
        "role": _role(one),
        "text": f"{one.name}: {one.figures}",
    }


def figures(worth: Worth) -> list[Figure]:
    """Return one figure; none if no memory is known."""
    rows = [_point(one) for one in _shown(worth)]
    if not rows:
        return []
    edge = [{"mib": row["mib"], "ms": row["ms"]} for row in map(_point, frontier(worth.splits))]
    across, up = (_Axis.of([row[name] for row in rows]) for name in ("mib", "ms"))
    edge += [{"mib": across.high, "ms": edge[-1]["ms"]}] if edge else []
    roles = [role for role in ROLES if any(row["role"] == role for row in rows)]
    for width in (WIDE, NARROW):
        places = [
            ((width - AXIS_PX) * across.share(r["mib"]), _height(width) * up.share(r["ms"])) for r in rows
        ]
        for row, px in zip(rows, side_by_side(places, 1 if is_narrow(width) else 2), strict=True):
            row[f"at_{width}"] = across.value(px / (width - AXIS_PX))

    def build(width: int) -> Any:
        scaled = across.encoding()
        x = alt.X("mib:Q", title=MEMORY, **scaled)
        y = alt.Y("ms:Q", title="step time, ms", **up.encoding())
        color = by_look(alt.Color, "role", {role: ROLES[role][0].value for role in roles})
        shape = by_look(alt.Shape, "role", {role: ROLES[role][1] for role in roles})
        line = (
            alt.Chart(named("edge"))
            .mark_line(
                interpolate="step-after",
                strokeDash=[5, 4],
                strokeWidth=1.5,
                color=Ink.MUTED.value,
                aria=False,
            )
            .encode(x=x, y=y)
        )
        marks = alt.Chart(named("rows")).encode(x=alt.X(f"at_{width}:Q", title=MEMORY, **scaled), y=y)
        points = marks.mark_point(filled=True, size=260, opacity=1, fillOpacity=0.25, strokeWidth=1.5).encode(
            color=color, shape=shape, stroke=color, description="text:N"
        )
        labels = marks.mark_text(color=Ink.TEXT.value, aria=False).encode(text="m:N")
        return alt.layer(line, points, labels).properties(height=_height(width))

    return [figure(f"{worth.model}: step time against memory", CAPTION, build, {"rows": rows, "edge": edge})]


def side_by_side(places: Sequence[tuple[float, float]], reach: int) -> list[float]:
    """Return x of each mark, moved by up to `reach` marks so that it covers no later one; without room it stays.

    Args:
        places: (x, y) of each mark, in px.
    """
    placed: list[tuple[float, float]] = []
    for x, y in reversed(places):  # the most important mark is last and keeps its place
        tried = (x + sign * n * MARK_PX for n in range(reach + 1) for sign in (-1, 1))
        free = (at for at in tried if all(math.hypot(at - a, y - b) >= MARK_PX for a, b in placed))
        placed.append((next(free, x), y))
    return [at for at, _ in reversed(placed)]


def _height(width: int) -> int:
    return 300 if is_narrow(width) else 360


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """An axis, logarithmic if its ends are far apart."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Axis":
        """Return an axis with a little more room than the values need."""
        low, high = min(values), max(values)
        room = (high / low) ** 0.08 * 1.03
        return cls(low=low / room, high=high * room)

    @property
    def logarithmic(self) -> bool:
        return self.high / self.low >= LOG_FROM

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the low end, 1 at the high one."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, share: float) -> float:
        """Return the value at a place."""
        if self.logarithmic:
            return self.low * math.exp(share * math.log(self.high / self.low))
        return self.low + share * (self.high - self.low)

    def encoding(self) -> dict[str, Any]:
        """Return Vega-Lite's options of the axis."""
        ends = [self.low, self.high]
        if not self.logarithmic:
            return {"scale": alt.Scale(domain=ends, nice=False, zero=False)}
        scale = alt.Scale(type="log", domain=ends, nice=False)
        return {"scale": scale, "axis": alt.Axis(values=log_ticks(self.low, self.high))}
