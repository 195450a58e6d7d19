"""The page of the target `ablations`: searches side by side, by their results after equally many evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.asking.conversation import MadeBy
from overlayccl_core.evidence.ablations import mean_curves
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.statistics import Ratio, over_seeds
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
    scripted,
    table_of,
    with_sources,
)
from overlayccl_core.report.charts import Ink, by_look, figure, is_narrow, log_ticks, named
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATIONS

LEAD = "Searches side by side: what they found, by the cost model's prices, after how many evaluations."
_INKS = (Ink.BLUE, Ink.ORANGE, Ink.GREEN, Ink.PURPLE, Ink.SKY, Ink.YELLOW, Ink.GREY)
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])  # the first 28 searches differ in colour or dash
_TICKS = (1, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 7)


def page(curves: pl.DataFrame, arms: pl.DataFrame, name: str) -> str:
    """Return the HTML.

    Args:
        curves: Table `ablation_curves`.
        arms: Table `ablations`.
        name: Name of the run.
    """
    section = PageSection(
        anchor="searches",
        title="Prices by evaluations",
        blocks=with_sources(page_sources(ABLATION_CURVES, ABLATIONS), _blocks(curves, arms)),
    )
    about = f"problems {', '.join(curves['problem'].unique().sort())}."
    return page_of(name, about, LEAD, section)


def label(arm: str, made_by: Sequence[str]) -> str:
    """Return a search's name for people: `enumerate (scripted)` if no model answered it."""
    others = [who for who in made_by if who != MadeBy.MODEL]
    return f"{arm} ({', '.join(others)})" if others else arm


def _blocks(curves: pl.DataFrame, arms: pl.DataFrame) -> list[Block]:
    labels = {
        arm: label(arm, sorted({who for row in here["made_by"] for who in row}))
        for (arm,), here in arms.group_by("arm", maintain_order=True)
    }
    answered = (who for made_by in arms["made_by"] for who in made_by)
    return [_reading(curves), *scripted(answered), _figure(curves, labels), _table(arms, labels)]


def _reading(curves: pl.DataFrame) -> Text:
    places = curves.select("case", "direction").n_unique()
    return Text(
        text=(
            f"{count(curves['arm'].n_unique(), 'search', 'searches')} at "
            f"{count(places, 'Case and direction', 'Cases and directions')}. An evaluation is a proposal that came "
            "to a Program with a price: a new one, or one that was known (a duplicate, which costs little). The "
            "strategies that every search begins with count, and what is tried under other labels. All prices "
            "are the cost model's; nothing here was timed."
        )
    )


def _figure(curves: pl.DataFrame, labels: Mapping[str, str]) -> Figure:
    rows = [
        row
        | {
            "arm": labels[row["arm"]],
            "text": f"{labels[row['arm']]}, {row['evaluations']} evaluations: {_ratio(ratio)}",
        }
        for row in mean_curves(curves)
        for ratio in [Ratio(value=row["value"], low=row["low"], high=row["high"])]
    ]
    bands = [row for row in rows if row["low"] is not None]
    most = max(row["high"] or row["value"] for row in rows)
    scale = alt.Scale(type="log", domain=[1, max(1.02 * most, 1.05)], nice=False)
    inks = {name: _INKS[n % len(_INKS)].value for n, name in enumerate(labels.values())}
    dashes = {name: _DASHES[n % len(_DASHES)] for n, name in enumerate(labels.values())}

    def build(width: int) -> Any:
        x = alt.X("evaluations:Q", title="evaluations at each place (log)", scale=_log_x(rows))
        axis = alt.Axis(values=_ticks(scale.domain[1]))
        title = "over the best" if is_narrow(width) else "price over the cheapest that any search found (log)"
        legend = alt.Legend(symbolType="stroke", symbolOpacity=1)
        color, dash = by_look(alt.Color, "arm", inks, legend=legend), by_look(alt.StrokeDash, "arm", dashes)
        band = (
            alt.Chart(named("bands"))
            .mark_area(opacity=0.18, interpolate="step-after", aria=False)
            .encode(x=x, y=alt.Y("low:Q", scale=scale, axis=axis, title=title), y2="high:Q", color=color)
        )
        line = (
            alt.Chart(named("rows"))
            .mark_line(strokeWidth=1.8, interpolate="step-after", point=alt.OverlayMarkDef(size=10))
            .encode(
                x=x,
                y=alt.Y("value:Q", scale=scale, axis=axis, title=title),
                color=color,
                strokeDash=dash,
                description="text:N",
            )
        )
        return alt.layer(band, line).properties(height=320)

    return figure(
        "The cheapest price so far",
        "Line: of the geometric mean over all Cases and directions the median over seeds. Band: its 95% interval "
        "over seeds (Student's, of logarithms); a search with fewer than 5 seeds has none. A search that ended at "
        "one place keeps what it found there while it goes on at others; its line ends with its last evaluation.",
        build,
        {"rows": rows, "bands": bands},
    )


def _ticks(most: float) -> list[float]:
    return [at for at in (*_TICKS, *log_ticks(10, max(most, 10))) if at <= most]


def _log_x(rows: Sequence[Mapping[str, Any]]) -> Any:
    ends = [row["evaluations"] for row in rows]
    return alt.Scale(type="log", domain=[min(ends), max(*ends, min(ends) + 1)], nice=False)


def _table(arms: pl.DataFrame, labels: Mapping[str, str]) -> TableBlock:
    return table_of(
        "Each search over its seeds (medians; brackets: 95% interval over seeds, from 5 on)",
        arms.partition_by("arm", maintain_order=True),
        {
            "search": lambda here: labels[here["arm"][0]],
            "seeds": lambda here: str(here.height),
            "evaluations a place": lambda here: figures(_median(here["evaluations"] / here["places"])),
            "of them duplicates": lambda here: percent(_median(1 - here["priced"] / here["evaluations"])),
            "end price over the best of all": lambda here: _ratio(over_seeds(here["relative"])),
            "after equally many evaluations": lambda here: _ratio(over_seeds(here["relative_at_equal"])),
            "families a place": lambda here: figures(_median(here["families"] / here["places"])),
            "USD, all seeds": lambda here: (
                NOTHING if here["usd"].null_count() == here.height else f"{here['usd'].sum():.2f}"
            ),
        },
        numeric=frozenset(range(1, 8)),
    )


def _median(values: pl.Series) -> float:
    return float(values.median())  # type: ignore[arg-type]  # of numbers, and there are some


def _ratio(ratio: Ratio) -> str:
    """Format a ratio: `1.042 (1.011..1.080)`."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} ({ratio.low:.3f}..{ratio.high:.3f})"
