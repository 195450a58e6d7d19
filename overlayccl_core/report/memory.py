"""Step time against peak activation memory, of every count of microbatches and arm of a model."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.report.blocks import Figure
from overlayccl_core.report.charts import NARROW, WIDE, Ink, figure, is_narrow, log_ticks, named
from overlayccl_core.report.worth import Split, Worth
from overlayccl_core.tables.deployed import Part

MEMORY = "peak activations of a rank, MiB"
LOG_FROM = 3  # times as much at one end of an axis as at the other
MARK_PX, AXIS_PX = 19, 60
ROLES = {  # colour, shape: no two differ by colour alone
    "deployed": (Ink.BLUE, "diamond"),
    "rival": (Ink.ORANGE, "square"),
    "needs no search": (Ink.GREEN, "circle"),
    "needs search": (Ink.PURPLE, "M0.5,-0.87L1,0L0.5,0.87L-0.5,0.87L-1,0L-0.5,-0.87Z"),
}


def _role(split: Split) -> str:
    if split.part is not Part.BESIDE:
        return split.part.value
    return "needs search" if split.needs_search else "needs no search"


def _shown(worth: Worth) -> list[Split]:
    """Those that were timed, the rival in any case, and what is deployed on top."""
    shown = [one for one in worth.splits if one.timed or one.part is not Part.BESIDE]
    return sorted(shown, key=lambda one: list(ROLES).index(_role(one)), reverse=True)


def frontier(splits: Iterable[Split]) -> list[Split]:
    """Of those that need no search, each that is faster than all with as little memory, the least memory first."""
    known = [one for one in splits if not one.needs_search and one.peak_activation_bytes is not None]
    known = [one for one in known if one.arm != ArmName.DEPLOYED]
    best: list[Split] = []
    for one in sorted(known, key=lambda one: (one.peak_activation_bytes or 0, one.step_us)):
        if not best or one.step_us < best[-1].step_us:
            best.append(one)
    return best


def _point(one: Split) -> dict[str, Any]:
    assert one.peak_activation_bytes is not None  # the caller asked
    return {
        "mib": one.peak_activation_bytes / MIB,
        "ms": one.step_us / 1e3,
        "m": str(one.microbatches),
        "role": _role(one),
        "text": f"{one.name}: {one.figures}",
    }


def figures(worth: Worth) -> list[Figure]:
    """One; none where no memory is known."""
    shown = [one for one in _shown(worth) if one.peak_activation_bytes is not None]
    if not shown:
        return []
    rows = [_point(one) for one in shown]
    edge = [{"mib": row["mib"], "ms": row["ms"]} for row in map(_point, frontier(worth.splits))]
    ends = {axis: _ends([row[axis] for row in rows]) for axis in ("mib", "ms")}
    edge += [{"mib": ends["mib"][1], "ms": edge[-1]["ms"]}] if edge else []
    roles = [role for role in ROLES if any(row["role"] == role for row in rows)]
    for width in (WIDE, NARROW):
        for row, mib in zip(rows, side_by_side(rows, ends, width - AXIS_PX, _height(width)), strict=True):
            row[f"at_{width}"] = mib

    def build(width: int) -> Any:
        scaled = _axis(*ends["mib"])
        x = alt.X("mib:Q", title=MEMORY, **scaled)
        y = alt.Y("ms:Q", title="step time, ms", **_axis(*ends["ms"]))
        color = alt.Color(
            "role:N",
            title=None,
            scale=alt.Scale(domain=roles, range=[ROLES[role][0].value for role in roles]),
        )
        shape = alt.Shape(
            "role:N", title=None, scale=alt.Scale(domain=roles, range=[ROLES[role][1] for role in roles])
        )
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

    return [
        figure(
            f"{worth.model}: step time against memory, every way that was timed",
            "The number in a mark is M. Lower is faster, further left holds less memory. Dashed: the best "
            "that needs no search at each memory. Where its mark lies under this line, what is deployed is "
            "worth its search. Marks that would cover each other stand side by side.",
            build,
            {"rows": rows, "edge": edge},
        )
    ]


def side_by_side(
    rows: Sequence[Mapping[str, Any]], ends: Mapping[str, tuple[float, float]], width: int, height: int
) -> list[float]:
    """MiB at which each row's mark stands, so that no mark covers another. width, height: of the axes, in px."""

    def share(value: float, low: float, high: float) -> float:
        return (
            math.log(value / low) / math.log(high / low)
            if high / low >= LOG_FROM
            else (value - low) / (high - low)
        )

    placed: list[tuple[float, float]] = []
    stands = []
    low, high = ends["mib"]
    for row in reversed(rows):  # what counts most keeps its place
        x, y = width * share(row["mib"], low, high), height * share(row["ms"], *ends["ms"])
        steps = (sign * n * MARK_PX for n in range(len(rows)) for sign in (-1, 1))
        free = (
            x + step for step in steps if all(math.hypot(x + step - a, y - b) >= MARK_PX for a, b in placed)
        )
        at = next(at for at in free if 0 <= at <= width) if placed else x
        placed.append((at, y))
        stands.append(
            low * (high / low) ** (at / width) if high / low >= LOG_FROM else low + at / width * (high - low)
        )
    return stands[::-1]


def _height(width: int) -> int:
    return 300 if is_narrow(width) else 360


def _ends(values: list[float]) -> tuple[float, float]:
    """A little more room than they take."""
    low, high = min(values), max(values)
    room = (high / low) ** 0.08 * 1.03
    return low / room, high * room


def _axis(low: float, high: float) -> dict[str, Any]:
    """Logarithmic where the ends are far apart."""
    if high / low < LOG_FROM:
        return {"scale": alt.Scale(domain=[low, high], nice=False, zero=False)}
    return {
        "scale": alt.Scale(type="log", domain=[low, high], nice=False),
        "axis": alt.Axis(values=log_ticks(low, high)),
    }
