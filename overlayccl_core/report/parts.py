"""The page of the target `decompose`: what each factor gives of the gain over the developer's calls, by model."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import ceil, floor
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.evidence.part_arms import MICROBATCHES
from overlayccl_core.evidence.parts import Decomposition
from overlayccl_core.measuring.effects import FactorEffect, Told
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    PageSection,
    TableBlock,
    Text,
    count,
    page_sources,
    percent,
    table_of,
    times,
    with_sources,
)
from overlayccl_core.report.charts import Ink, figure, named
from overlayccl_core.report.rendering import page_of
from overlayccl_core.rewrites.rule import Factor
from overlayccl_core.tables.decompose import PARTS, PartRole

BREAK = "|"  # between the two lines of a bar's name
LEAD = "The gain of what is deployed over the developer's calls, split into what makes it."
HOW = (
    "Arms with some of the factors take turns in the same launches, at all sites of the step together. The part of "
    "a factor is the mean gain of adding it, over all orders of adding the factors (its Shapley value), so parts "
    "multiply to the whole. A rewritten Program is ordered anew: that counts for the factor of the rewrite. A step "
    "that does nothing without those of another factor is left out where that is missing, and both share what they "
    "give together. Intervals are Student's over launches, 95%, of geometric means."
)
MEANING = {
    Factor.SCHEDULE: "the order in which calls start, and what is in flight meanwhile",
    Factor.BOUNDARY: "no cuts between graphs of calls",
    Factor.MERGE: "calls joined into one, or one cut into several",
    Factor.PRIMITIVE: "another kind or family of collectives, or other groups of ranks",
    Factor.LAYOUT: "what of a value is sent, and in which places",
    Factor.DTYPE: "the type on the wire",
    MICROBATCHES: "into how many microbatches the batch is split",
}
EFFECTS = {
    FactorEffect.WHOLE: "the whole",
    FactorEffect.PART: "part",
    FactorEffect.ALONE: "alone, on the developer's calls",
    FactorEffect.TOGETHER: "together, beyond what fewer of them give",
}


def page(models: Sequence[Decomposition], asked: float, name: str) -> str:
    """Return the HTML. asked: half of the interval that the whole should have, as a part; name: of the run."""
    blocks = [block for one in models for block in _blocks(one, asked)]
    section = PageSection(
        anchor="parts",
        title="Where the gain comes from",
        blocks=with_sources(page_sources(PARTS), blocks),
    )
    return page_of(name, f"{count(len(models), 'model')}.", LEAD, section)


def sentence(one: Decomposition, asked: float) -> str:
    """Say what a model's gain is made of, the largest part first."""
    if one.without:
        return f"{one.sides.model}: nothing to split: {one.without}."
    whole, *parts = (told for told in one.told if told.effect in (FactorEffect.WHOLE, FactorEffect.PART))
    parts.sort(key=lambda told: -told.ratio.value)
    said = ", ".join(f"{factor_name(told)} {times(told.ratio)}" for told in parts)
    return (
        f"{one.sides.model}: what is deployed is {times(whole.ratio)} as fast as the developer's calls. "
        f"By factor: {said}. {_how_sure(one, asked)}"
    )


def factor_name(told: Told) -> str:
    """Return the factors of an effect, for people."""
    return " and ".join(told.factors)


def _how_sure(one: Decomposition, asked: float) -> str:
    launches, half = count(one.launches, "launch", "launches"), one.half_width
    if half is None:
        return f"There is no interval: only {launches}."
    if one.disturbed:
        return f"Others took CPU time in most of the {launches}: these parts show nothing."
    within = "" if half <= asked else f", wider than the {percent(asked)} that were asked for"
    return f"Half of the interval of the whole is {percent(half)}{within}, of {launches}."


def _blocks(one: Decomposition, asked: float) -> Iterator[Block]:
    tone = "missing" if one.without else "warning" if one.disturbed else "plain"
    yield Text(text=sentence(one, asked), tone=tone)
    if one.told:
        yield Text(text=f"M: {_counts(one)}. {HOW}")
        yield _figure(one)
        yield _effects(one)
    if not one.arms.is_empty():
        yield _by_hand(one.arms)
        yield _sets(one.arms)


def _counts(one: Decomposition) -> str:
    sides = one.sides
    if sides.developer == sides.deployed:
        return f"both sides split their batch into {sides.deployed}"
    return f"{sides.deployed} deployed, {sides.developer} where the developer's calls are fastest"


def _figure(one: Decomposition) -> Figure:
    """Draw the parts as a waterfall on a logarithmic axis, from the developer's calls to what is deployed."""
    whole, *parts = (told for told in one.told if told.effect in (FactorEffect.WHOLE, FactorEffect.PART))
    starts = accumulate((told.ratio.value for told in parts), lambda a, b: a * b, initial=1.0)
    added = ((at, told, factor_name(told)) for at, told in zip(starts, parts, strict=False))
    placed = [(1.0, whole, "the whole"), *added]
    rows = [_bar(at, told.ratio, name) for at, told, name in placed]
    edges = [row[end] for row in rows for end in ("from", "to", "low", "high")]
    low, high = min(edges) / 1.03, max(edges) * 1.03

    def build(width: int) -> Any:
        title = "times as fast as the developer's calls"
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        x = alt.X("from:Q", title=title, scale=scale, axis=alt.Axis(values=_ticks(low, high), format="~g"))
        two_lines = alt.Axis(labelExpr=f"split(datum.label, '{BREAK}')")
        y = alt.Y("factor:N", title=None, sort=[row["factor"] for row in rows], axis=two_lines)
        base = alt.Chart(named("rows")).encode(y=y, description="factor:N")
        bars = base.mark_bar(height=16, color=Ink.BLUE.value).encode(x=x, x2="to:Q")
        ends = {"x": alt.X("low:Q", scale=scale), "x2": "high:Q"}
        spans = base.mark_rule(color=Ink.TEXT.value, strokeWidth=1.5).encode(**ends)
        return alt.layer(bars, spans).properties(height=alt.Step(44))

    caption = (
        "All factors, then each one where those above it end. Lines: 95% intervals, of each bar's own end."
    )
    return figure(f"{one.sides.model}: where the gain comes from", caption, build, {"rows": rows})


def _bar(at: float, ratio: Ratio, name: str) -> dict[str, Any]:
    low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
    return {
        "factor": f"{name}{BREAK}{times(ratio)}",
        "from": at,
        "to": at * ratio.value,
        "low": at * low,
        "high": at * high,
    }


def _ticks(low: float, high: float) -> list[float]:
    """Multiples of the finest round number that give at most six ticks."""
    step = next(step for step in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, high) if (high - low) / step <= 6)
    return [round(number * step, 2) for number in range(ceil(low / step), floor(high / step) + 1)]


def _effects(one: Decomposition) -> TableBlock:
    return table_of(
        f"{one.sides.model}: what each factor gives",
        one.told,
        {
            "factor": factor_name,
            "effect": lambda told: EFFECTS[told.effect],
            "times as fast (95% interval)": lambda told: times(told.ratio),
            "faster by": lambda told: percent(told.ratio.value - 1),
            "share of the whole": lambda told: percent(told.share),
            "what it is": lambda told: (
                MEANING[told.factors[0]] if told.effect is FactorEffect.PART else NOTHING
            ),
        },
        numeric=frozenset({2, 3, 4}),
        strong=frozenset({0}),
    )


def _by_hand(arms: pl.DataFrame) -> TableBlock:
    deployed = arms.filter(pl.col("role") == PartRole.DEPLOYED)
    return table_of(
        "What it takes: by hand, and by rewriting the developer's calls",
        deployed.iter_rows(named=True),
        {
            "Case": lambda row: row["case"],
            "direction": lambda row: row["direction"],
            "lines of the known way": lambda row: NOTHING if row["lines"] is None else str(row["lines"]),
            "steps": lambda row: str(row["steps"]),
            "which": lambda row: row["candidate"] if row["steps"] else "the developer's calls themselves",
        },
        numeric=frozenset({2, 3}),
    )


def _sets(arms: pl.DataFrame) -> TableBlock:
    return table_of(
        "The arms: sets of factors at every Case",
        arms.iter_rows(named=True),
        {
            "factors": lambda row: row["factors"] or NOTHING,
            "M": lambda row: str(row["microbatches"]),
            "Case": lambda row: f"{row['case']} {row['direction']}",
            "Program": lambda row: row["program"][:8],
            "does nothing without the others": lambda row: row["left_out"] or NOTHING,
        },
        numeric=frozenset({1}),
        folded=True,
    )
