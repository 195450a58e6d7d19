"""The page of the target `longrun`: losses of many steps beside the spread of developer's over seeds.

The training gate has judged every arm (table `curves`); this page shows what it saw, step by step.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.gates.training import BAND_QUARTILES
from overlayccl_core.measuring.arms import ArmName, arm_label
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    PageSection,
    TableBlock,
    Text,
    count,
    page_sources,
    table_of,
    with_sources,
)
from overlayccl_core.report.charts import Ink, by_look, figure, log_ticks, named
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.longrun import CURVES, LOSSES

LEAD = (
    "Does every arm train like the developer's calls over many steps? The spread over seeds is the measure."
)
READING = (
    "All arms begin with the same parameters and read the same data, so their losses differ by rounding alone. "
    "Each step amplifies it. How far may they come apart? As far as chance takes the developer's own arm: it also "
    "runs from other seeds, and the spread is the interquartile range of its last losses (means over the last "
    "tenth of the steps). An arm that adds in another order has to end within half of the spread from the "
    "developer's at the same seed, a lossy one within all of it. Arms had launches of their own, so no times are "
    "compared here."
)
WINDOWS = 60  # points of a curve: each is a mean over so many steps
SMALLEST = 1e-8  # of the logarithmic axis
INKS = (Ink.BLUE, Ink.ORANGE, Ink.GREEN, Ink.PURPLE, Ink.SKY, Ink.YELLOW)
DASHES = ((1, 0), (6, 3), (2, 2))
SPREAD, HALF = "spread over seeds", "half of it"
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An arm of a model, and how the gate judged its losses. figures: the gate's evidence."""

    row: Row
    figures: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The arm's name for people."""
        return arm_label(self.row["arm"])

    @property
    def is_measure(self) -> bool:
        """Whether it is the developer's arm, to which the others are held."""
        return bool(self.row["arm"] == ArmName.DEVELOPER)

    @property
    def within(self) -> bool | None:
        """Whether it ends inside the band; None: the band did not decide."""
        return None if "final_difference" not in self.figures else self.row["outcome"] == Outcome.PASS

    @property
    def share(self) -> float | None:
        """Its difference at the end, over the spread; None: the band did not decide, or is of no width."""
        return self.figures["final_difference"] / self.figures["band"] if self._banded else None

    @property
    def word(self) -> str:
        """The verdict in words."""
        if self.is_measure:
            return "the measure"
        if self.within is not None:
            return "inside" if self.within else "OUTSIDE"
        return str(self.row["outcome"]).replace("_", " ")

    @property
    def _banded(self) -> bool:
        return self.within is not None and self.figures["band"] > 0


def page(losses: pl.DataFrame, curves: pl.DataFrame, name: str) -> str:
    """Return the HTML. losses, curves: the tables of these names; name: of the run."""
    section = PageSection(
        anchor="curves",
        title="Losses of many steps",
        blocks=with_sources(page_sources(LOSSES, CURVES), _blocks(losses, curves)),
    )
    about = f"{count(curves['model'].n_unique(), 'model')}, {count(curves.height, 'arm')}."
    return page_of(name, about, LEAD, section)


def sentences(losses: pl.DataFrame, curves: pl.DataFrame) -> Iterator[str]:
    """Say of each model which arms end inside the band of the developer's seeds."""
    for model, arms in _models(curves):
        seeds = _developers(losses, model)["seed"].n_unique()
        others = [one for one in arms if not one.is_measure]
        judged = [one for one in others if one.within is not None]
        steps = max(one.row["steps"] for one in arms)
        said = f"{model}, {steps:,} steps: "
        if judged:
            inside = sum(one.within is True for one in judged)
            said += f"{inside} of {len(judged)} inside the band of developer's {count(seeds, 'seed')}"
            said += f" (spread of the last losses {figures(judged[0].figures['band'])})."
            said += "".join(_farthest(judged))
        else:
            said += f"no arm was held to a band, with {count(seeds, 'seed')} of developer's."
        yield said + "".join(
            f" {one.label}: {one.row['outcome'].replace('_', ' ')}, {one.row['message']}."
            for one in others
            if one.within is False or (one.within is None and one.row["outcome"] != Outcome.PASS)
        )


def _farthest(judged: Sequence[Judged]) -> Iterator[str]:
    shares = [(one.share, one.label) for one in judged if one.share is not None]
    if shares:
        share, label = max(shares)
        yield f" The farthest, {label}, is {_part(share)} of the spread away from developer's."


def _part(share: float) -> str:
    """Format a share that may be tiny: `0.0013%`."""
    return f"{figures(100 * share)}%"


def _blocks(losses: pl.DataFrame, curves: pl.DataFrame) -> Iterator[Block]:
    for said in sentences(losses, curves):
        yield Text(text=said)
    yield Text(text=READING)
    for model, arms in _models(curves):
        mine = _windows(losses.filter(model=model))
        if not mine.is_empty():
            yield _losses(model, arms, mine)
            yield _differences(model, arms, mine)
    yield _table([one for _, arms in _models(curves) for one in arms])


def _models(curves: pl.DataFrame) -> Iterator[tuple[str, list[Judged]]]:
    for (model,), rows in curves.group_by("model", maintain_order=True):
        yield (
            str(model),
            [
                Judged(row=row, figures=json.loads(row["evidence"] or "{}"))
                for row in rows.iter_rows(named=True)
            ],
        )


def _developers(losses: pl.DataFrame, model: str) -> pl.DataFrame:
    return losses.filter(model=model, arm=ArmName.DEVELOPER)


def _windows(losses: pl.DataFrame) -> pl.DataFrame:
    """Return means over windows of steps: arm, seed, step (the window's last), loss, developer_difference."""
    if losses.is_empty():
        return losses
    width = -(-(losses["step"].max() + 1) // WINDOWS)  # type: ignore[operator]  # rounded up
    return (
        losses.with_columns(window=pl.col("step") // width)
        .group_by("arm", "seed", "window", maintain_order=True)
        .agg(pl.col("step").max(), pl.col("loss", "developer_difference").mean())
    )


def _band(windows: pl.DataFrame) -> pl.DataFrame:
    """Return what chance does to the developer's arm, by step: quartiles, the least and the most over seeds."""
    low, high = (quartile / 100 for quartile in BAND_QUARTILES)
    loss = pl.col("loss")
    return (
        windows.filter(arm=ArmName.DEVELOPER)
        .group_by("step", maintain_order=True)
        .agg(
            loss.quantile(low, "linear").alias("low"),
            loss.quantile(high, "linear").alias("high"),
            loss.min().alias("least"),
            loss.max().alias("most"),
        )
        .with_columns(spread=pl.col("high") - pl.col("low"))
    )


def _looks(arms: Sequence[Judged]) -> tuple[dict[str, str], dict[str, Sequence[int]]]:
    """Return label -> colour, and label -> dash: no two arms have both."""
    labels = [one.label for one in arms]
    return (
        {label: INKS[n % len(INKS)].value for n, label in enumerate(labels)},
        {label: DASHES[n // len(INKS) % len(DASHES)] for n, label in enumerate(labels)},
    )


def _lines(arms: Sequence[Judged], windows: pl.DataFrame) -> list[dict[str, Any]]:
    labels = {one.row["arm"]: one.label for one in arms}
    return [
        {
            "arm": labels[row["arm"]],
            "step": row["step"],
            "loss": row["loss"],
            "text": f"{labels[row['arm']]}, step {row['step']}: {figures(row['loss'])}",
        }
        for row in windows.filter(seed=0).iter_rows(named=True)
        if row["arm"] in labels
    ]


def _losses(model: str, arms: Sequence[Judged], windows: pl.DataFrame) -> Figure:
    lines, band = _lines(arms, windows), _band(windows).to_dicts()
    colors, dashes = _looks(arms)

    def build(width: int) -> Any:
        x = alt.X("step:Q", title="step")
        y = alt.Y("loss:Q", title="loss", scale=alt.Scale(zero=False))
        area = alt.Chart(named("band")).mark_area(color=Ink.GREY.value, aria=False)
        whole = area.encode(x=x, y=alt.Y("least:Q", title="loss"), y2="most:Q", opacity=alt.value(0.2))
        inner = area.encode(x=x, y=alt.Y("low:Q", title="loss"), y2="high:Q", opacity=alt.value(0.45))
        drawn = _of_arms("lines", x, y, colors, dashes)
        return alt.layer(whole, inner, drawn).properties(height=300)

    seeds = windows.filter(arm=ArmName.DEVELOPER)["seed"].n_unique()
    caption = (
        f"Means over {len({row['step'] for row in lines})} windows of steps. Lines: the arms, from seed 0. Grey: "
        f"the developer's arm over {count(seeds, 'seed')}; the middle half of them is darker. Where arms train "
        "alike, their lines lie upon one another."
    )
    return figure(f"{model}: losses", caption, build, {"lines": lines, "band": band})


def _of_arms(data: str, x: Any, y: Any, colors: Mapping[str, str], dashes: Mapping[str, Any]) -> Any:
    """A line for each arm."""
    color, dash = by_look(alt.Color, "arm", colors), by_look(alt.StrokeDash, "arm", dashes)
    line = alt.Chart(named(data)).mark_line(strokeWidth=1.6)
    return line.encode(x=x, y=y, color=color, strokeDash=dash, description="text:N")


def _differences(model: str, arms: Sequence[Judged], windows: pl.DataFrame) -> Figure:
    others = [one for one in arms if not one.is_measure]
    labels = {one.row["arm"]: one.label for one in others}
    rows = [
        {
            "arm": labels[row["arm"]],
            "step": row["step"],
            "apart": max(abs(row["developer_difference"]), SMALLEST),
            "text": f"{labels[row['arm']]}, step {row['step']}: {abs(row['developer_difference']):.2g}",
        }
        for row in windows.filter(seed=0).iter_rows(named=True)
        if row["arm"] in labels and row["developer_difference"] is not None
    ]
    allowed = [
        {"arm": name, "step": row["step"], "apart": max(row["spread"] * part, SMALLEST)}
        for row in _band(windows).iter_rows(named=True)
        for name, part in ((SPREAD, 1.0), (HALF, 0.5))
        if row["spread"] > 0
    ]
    colors, dashes = _looks(others)
    colors |= {SPREAD: Ink.TEXT.value, HALF: Ink.GREY.value}
    dashes |= {SPREAD: DASHES[0], HALF: DASHES[0]}
    ticks = log_ticks(SMALLEST, max((one["apart"] for one in (*rows, *allowed)), default=1.0))

    def build(width: int) -> Any:
        x = alt.X("step:Q", title="step")
        scale = alt.Scale(type="log", domainMin=SMALLEST)
        y = alt.Y("apart:Q", title="difference", scale=scale, axis=alt.Axis(format=".0e", values=ticks))
        drawn = _of_arms("rows", x, y, colors, dashes)
        held = (
            alt.Chart(named("allowed"))
            .mark_line(strokeWidth=2)
            .encode(x=x, y=y, color=by_look(alt.Color, "arm", colors))
        )
        return alt.layer(held, drawn).properties(height=300)

    return figure(
        f"{model}: how far the arms are from developer's at the same seed",
        f"Sizes of differences of the means above; {SMALLEST:.0e} stands for anything less. An arm below the lines "
        "of the spread differs by less than chance makes of the developer's own arm.",
        build,
        {"rows": rows, "allowed": allowed},
    )


def _table(arms: Sequence[Judged]) -> TableBlock:
    def number(name: str) -> Any:
        return lambda one: NOTHING if one.row[name] is None else figures(one.row[name])

    def evidence(name: str) -> Any:
        return lambda one: figures(one.figures[name]) if name in one.figures else NOTHING

    return table_of(
        "Arms: losses, and whether they end inside the band",
        arms,
        {
            "model": lambda one: f"{one.row['model']}, M = {one.row['microbatches']}",
            "arm": lambda one: one.label,
            "rounds": lambda one: one.row["numerics"] or NOTHING,
            "steps": lambda one: f"{one.row['steps']:,}",
            "first loss": number("first_loss"),
            "last loss": number("last_loss"),
            "held-out loss": number("validation_loss"),
            "from developer's, at the end": evidence("final_difference"),
            "spread over seeds": evidence("band"),
            "of the spread": lambda one: NOTHING if one.share is None else _part(one.share),
            "the band": lambda one: one.word,
            "verdict": lambda one: one.row["message"],
        },
        numeric=frozenset({3, 4, 5, 6, 7, 8, 9}),
    )
