"""The page of the target `ablations`: searches side by side, by their results after equally many evaluations."""

from collections.abc import Callable, Mapping, Sequence
from math import isinf
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.asking.conversation import MadeBy
from overlayccl_core.evidence.ablations import ARM, MEAN, PLACE, mean_curves, standing_at
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
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATION_PLACES, ABLATIONS

LEAD = "Searches side by side: what they found, by the cost model's prices, after how many evaluations."
_INKS = (Ink.BLUE, Ink.ORANGE, Ink.GREEN, Ink.PURPLE, Ink.SKY, Ink.YELLOW, Ink.GREY)
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])  # the first 28 searches differ in colour or dash
_AFTER = (20, 100)  # evaluations at each place
_ALIKE = 1.01  # of two prices
_INTERVAL = "94% for the median of all seeds, whatever their distribution: of 5 the least and the most"
RULER = "random"  # the search that others are held to at each place, as it learns nothing
_TICKS = (1, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 7)


def page(curves: pl.DataFrame, places: pl.DataFrame, arms: pl.DataFrame, name: str) -> str:
    """Return the HTML.

    Args:
        curves: Table `ablation_curves`.
        places: Table `ablation_places`.
        arms: Table `ablations`.
        name: Name of the run.
    """
    section = PageSection(
        anchor="searches",
        title="Prices by evaluations",
        blocks=with_sources(
            page_sources(ABLATION_CURVES, ABLATION_PLACES, ABLATIONS), _blocks(curves, places, arms)
        ),
    )
    about = f"problems {', '.join(curves['problem'].unique().sort())}."
    return page_of(name, about, LEAD, section)


def label(arm: str, made_by: Sequence[str]) -> str:
    """Return a search's name for people: `enumerate (scripted)` if no model answered it."""
    others = [who for who in made_by if who != MadeBy.MODEL]
    return f"{arm} ({', '.join(others)})" if others else arm


def _blocks(curves: pl.DataFrame, places: pl.DataFrame, arms: pl.DataFrame) -> list[Block]:
    labels = {
        arm: label(arm, sorted({who for row in here["made_by"] for who in row}))
        for (arm,), here in arms.group_by("arm", maintain_order=True)
    }
    answered = (who for made_by in arms["made_by"] for who in made_by)
    return [
        _reading(curves),
        *scripted(answered),
        _figure(curves, labels),
        _table(curves, places, arms, labels),
        _by_problem(places, labels),
    ]


def _reading(curves: pl.DataFrame) -> Text:
    places = curves.select("case", "direction").n_unique()
    return Text(
        text=(
            f"{count(curves['arm'].n_unique(), 'search', 'searches')} at "
            f"{count(places, 'Case and direction', 'Cases and directions')}. An evaluation is a proposal that came "
            "to a Program with a price: a new one, or one that was known (a duplicate, which costs little). The "
            "strategies that every search begins with count, and what is tried under other labels. All prices "
            "are the cost model's, also those of a search that did not know them; nothing here was timed."
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
        "Line: of the geometric mean over all Cases and directions the median over seeds. Band: its interval "
        f"over seeds ({_INTERVAL}); a search with fewer than 5 seeds has none. A search that ended at "
        "one place keeps what it found there while it goes on at others; its line ends with its last evaluation.",
        build,
        {"rows": rows, "bands": bands},
    )


def _ticks(most: float) -> list[float]:
    return [at for at in (*_TICKS, *log_ticks(10, max(most, 10))) if at <= most]


def _log_x(rows: Sequence[Mapping[str, Any]]) -> Any:
    ends = [row["evaluations"] for row in rows]
    return alt.Scale(type="log", domain=[min(ends), max(*ends, min(ends) + 1)], nice=False)


def _table(
    curves: pl.DataFrame, places: pl.DataFrame, arms: pl.DataFrame, labels: Mapping[str, str]
) -> TableBlock:
    at = {arm: here for (arm,), here in places.group_by("arm")}

    def name(here: pl.DataFrame) -> str:
        return str(here["arm"][0])

    def stands_after(evaluations: int) -> Callable[[pl.DataFrame], str]:
        after = _after(curves, evaluations)
        return lambda here: _ratio(over_seeds(after[name(here)]))

    return table_of(
        f"Each search over its seeds (medians; brackets: {_INTERVAL}; from 5 seeds on)",
        arms.partition_by("arm", maintain_order=True),
        {
            "search": lambda here: labels[name(here)],
            "seeds": lambda here: str(here.height),
            "evaluations a place": lambda here: figures(_median(here["evaluations"] / here["places"])),
            "of them duplicates": lambda here: percent(_median(1 - here["priced"] / here["evaluations"])),
            **{f"price over the best after {n}": stands_after(n) for n in _AFTER},
            "at its end": lambda here: _ratio(over_seeds(here["relative"])),
            "after equally many evaluations": lambda here: _ratio(over_seeds(here["relative_at_equal"])),
            "evaluations until within 5%": lambda here: _count(over_seeds(_near_after(at[name(here)]))),
            "found nothing": lambda here: _nothing(at[name(here)]),
            "families a place": lambda here: figures(_median(here["families"] / here["places"])),
            "seconds": lambda here: (
                NOTHING if here["seconds"].null_count() else _count(over_seeds(here["seconds"]))
            ),
            "USD, all seeds": lambda here: (
                NOTHING if here["usd"].null_count() == here.height else f"{here['usd'].sum():.2f}"
            ),
        },
        numeric=frozenset(range(1, 11 + len(_AFTER))),
    )


def _by_problem(places: pl.DataFrame, labels: Mapping[str, str]) -> TableBlock:
    """Return each search's end at each Problem, and at how many places it ends below and above a plain one."""
    means = places.group_by("arm", "seed", "problem").agg(relative=MEAN).sort("seed")
    ends = places.group_by("arm", *PLACE).agg(pl.col("relative").median())
    arms = list(places["arm"].unique(maintain_order=True))
    ruler = RULER if RULER in arms else arms[0]

    def at_problem(problem: str) -> Callable[[str], str]:
        def cell(arm: str) -> str:
            here = means.filter(arm=arm, problem=problem)["relative"]
            return _ratio(over_seeds(here)) if len(here) else NOTHING

        return cell

    def against(arm: str) -> str:
        both = ends.filter(arm=arm).join(ends.filter(arm=ruler), on=PLACE, suffix="_ruler")
        ratios = (both["relative"] / both["relative_ruler"]).to_list()
        below, above = sum(r < 1 / _ALIKE for r in ratios), sum(r > _ALIKE for r in ratios)
        return f"{below} / {len(ratios) - below - above} / {above}"

    return table_of(
        f"Prices at the end over the best of all, by Problem (medians over seeds; brackets: {_INTERVAL})",
        arms,
        {
            "search": lambda arm: labels[arm],
            **{problem: at_problem(problem) for problem in places["problem"].unique().sort()},
            f"places cheaper / alike / dearer than {labels[ruler]}": against,
        },
        numeric=frozenset(range(1, places["problem"].n_unique() + 2)),
    )


def _after(curves: pl.DataFrame, evaluations: int) -> dict[str, list[float]]:
    """arm -> what stands after so many evaluations at each place [seeds]."""
    at = curves.select(PLACE).unique().with_columns(evaluations=pl.lit(evaluations, dtype=pl.Int64))
    means = standing_at(curves, at).group_by(*ARM).agg(relative=MEAN).sort(ARM)
    return {arm: here["relative"].to_list() for (arm,), here in means.group_by("arm")}


def _near_after(places: pl.DataFrame) -> list[float]:
    """[seeds]: the median over places of the evaluations until a price near the best; infinite: never."""
    never = pl.col("near_after").cast(pl.Float64).fill_null(float("inf"))
    return places.group_by("seed").agg(never.median()).sort("seed")["near_after"].to_list()


def _nothing(places: pl.DataFrame) -> str:
    """At how many places, of all seeds, a search found nothing below what it began with."""
    return f"{places.height - int(places['found'].sum())} of {places.height}"


def _count(figure: Ratio) -> str:
    """Format a figure: `41 (12..never)`."""

    def one(value: float) -> str:
        return "never" if isinf(value) else figures(value)

    interval = (
        "" if figure.low is None or figure.high is None else f" ({one(figure.low)}..{one(figure.high)})"
    )
    return f"{one(figure.value)}{interval}"


def _median(values: pl.Series) -> float:
    return float(values.median())  # type: ignore[arg-type]  # of numbers, and there are some


def _ratio(ratio: Ratio) -> str:
    """Format a ratio: `1.042 (1.011..1.080)`."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} ({ratio.low:.3f}..{ratio.high:.3f})"
