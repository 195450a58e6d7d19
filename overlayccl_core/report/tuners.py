"""The page of the target `tune`: what tuning brings, and who finds it in how many measured seconds."""

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.measuring.statistics import FEWEST_ROUNDS
from overlayccl_core.process_group.parts import PLAIN
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    PageSection,
    TableBlock,
    Text,
    columns_ratio,
    count,
    ms,
    page_sources,
    percent,
    table_of,
    times,
    with_sources,
    worded,
)
from overlayccl_core.report.charts import Ink, by_look, figure, is_narrow, named
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.tune import TUNED_CALLS, TUNER_CURVES, TunerName

LEAD = "Proven ways of single calls: which is the fastest, and who finds it after how many measured seconds."
LABELS = {
    TunerName.HYPERBAND: "Hyperband with TPE",
    TunerName.DESCENT: "coordinate descent",
    TunerName.RANDOM: "random",
    TunerName.GRID: "grid",
    TunerName.PRICE: "price alone",
}
_INKS = dict(zip(LABELS.values(), (Ink.BLUE, Ink.ORANGE, Ink.GREEN, Ink.PURPLE, Ink.GREY), strict=True))
_TICKS = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_FEWEST = 2 * FEWEST_ROUNDS - 1  # rounds, for so many even ones
_SHOWN = (0.25, 1, 4, 16)  # looks


def page(curves: pl.DataFrame, calls: pl.DataFrame, name: str) -> str:
    """Return the HTML. curves, calls: the tables `tuner_curves` and `tuned_calls`; name: of the run."""
    section = PageSection(
        anchor="tuners",
        title="Ways of single calls",
        blocks=with_sources(page_sources(TUNER_CURVES, TUNED_CALLS), _blocks(curves, calls)),
    )
    about = f"{count(calls.height, 'call')}, {count(int(calls['ways'].sum()), 'proven way')}."
    return page_of(name, about, LEAD, section)


def sentence(calls: pl.DataFrame) -> str:
    """Say what tuning brings, before anything else."""
    faster = calls.filter(pl.col("chosen") != PLAIN).sort("gain", descending=True)
    of = count(calls.height, "call")
    if calls["disturbed"].any():
        return (
            "Others took too much of the CPU while the ways were timed, so every call stays as it is. Time them "
            "again on a quiet machine: --forcerun time_ways."
        )
    if (rounds := min(calls["again_rounds"])) < _FEWEST:
        return (
            f"Too few rounds to judge by ({rounds}), so every call stays as it is. Give tune.again.seconds more, "
            f"for at least {_FEWEST}."
        )
    if faster.is_empty():
        return f"Tuning brings nothing here: of {of} none has a way that is faster than its own beyond noise."
    best = faster.row(0, named=True)
    stay = "" if faster.height == calls.height else " The others stay as they are."
    return (
        f"Of {of} {faster.height} can be made faster beyond noise. The most is {best['case']}: "
        f"{times(columns_ratio(best, 'gain'))} by {best['chosen']}.{stay}"
    )


def _blocks(curves: pl.DataFrame, calls: pl.DataFrame) -> Iterator[Block]:
    yield Text(text=sentence(calls))
    yield Text(
        text=(
            "All ways were timed in the same rounds of one launch. The even rounds say how long each takes; tuners "
            "see the odd rounds only, and are charged for the seconds of the samples that they draw. Regret: the "
            "time of the way that a tuner would name, over the fastest's, less 1. Before its first sample a tuner "
            "names the call's own way. What a call is told to take comes from a second launch, in which its own "
            "way and its fastest others have more rounds: the odd ones choose, and the even ones say the gain. "
            "Intervals are of one launch; another may differ more."
        )
    )
    yield _figure(curves)
    yield _tuners(curves)
    yield _calls(calls)
    yield _factorial(calls)


def _mean(curves: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over calls at each budget of looks."""
    of = pl.col("seeds").first(), *(pl.col(name).mean() for name in ("regret", "regret_p90", "samples"))
    return curves.group_by("tuner", "looks", maintain_order=True).agg(*of)


def _figure(curves: pl.DataFrame) -> Figure:
    rows = [
        {
            "tuner": LABELS[TunerName(row["tuner"])],
            **{name: row[name] for name in ("looks", "regret", "regret_p90")},
            "text": f"{LABELS[TunerName(row['tuner'])]}, {row['looks']:.3g} looks: {percent(row['regret'])}, in "
            f"one of ten courses over {percent(row['regret_p90'])}",
        }
        for row in _mean(curves).iter_rows(named=True)
    ]
    most = max(row["regret_p90"] for row in rows)

    def build(width: int) -> Any:
        scale = alt.Scale(type="symlog", constant=0.02, domain=[0, max(most, 0.05)], nice=False)
        axis = alt.Axis(values=[at for at in _TICKS if at <= max(most, 0.05)], format="%")
        title = "looks" if is_narrow(width) else "measured seconds, over those of one look at each way"
        x = alt.X("looks:Q", title=title, scale=alt.Scale(type="log", base=2))
        color = by_look(alt.Color, "tuner", {name: ink.value for name, ink in _INKS.items()})
        base = alt.Chart(named("rows"))
        middle = base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=12)).encode(
            x=x,
            y=alt.Y("regret:Q", title="regret", scale=scale, axis=axis),
            color=color,
            description="text:N",
        )
        late = base.mark_line(strokeWidth=1, strokeDash=[2, 3], aria=False).encode(
            x=x, y=alt.Y("regret_p90:Q", title="regret", scale=scale, axis=axis), color=color
        )
        return alt.layer(late, middle).properties(height=320)

    return figure(
        "Regret by measured seconds",
        "Line: median over courses. Dots: in one of ten courses it is more. Both are means over calls.",
        build,
        {"rows": rows},
    )


def _tuners(curves: pl.DataFrame) -> TableBlock:
    mean = _mean(curves)

    def cell(looks: float) -> Any:
        def text(name: TunerName) -> str:
            [row] = mean.filter(tuner=name, looks=looks).iter_rows(named=True)
            return f"{percent(row['regret'])}, {percent(row['regret_p90'])}"

        return text

    heads = {f"after {looks:g} looks": cell(looks) for looks in _SHOWN}
    return table_of(
        "Tuners: regret, median and 90% quantile over courses (means over calls)",
        list(LABELS),
        {
            "tuner": lambda name: LABELS[name],
            "courses": lambda name: str(mean.filter(tuner=name)["seeds"][0]),
            **heads,
        },
        numeric=frozenset(range(1, 2 + len(heads))),
    )


def _calls(calls: pl.DataFrame) -> TableBlock:
    return table_of(
        "Calls: the best way by the odd rounds of the second launch, and its gain in the even ones",
        calls.iter_rows(named=True),
        {
            "call": lambda row: row["case"],
            "ways": lambda row: str(row["ways"]),
            "its own, first launch": lambda row: ms(row["plain_us"]),
            "rounds": lambda row: str(row["again_rounds"]),
            "the best": lambda row: row["found"],
            "gain": lambda row: worded(columns_ratio(row, "gain")),
            "chosen": lambda row: row["chosen"],
            "the cheapest by price": lambda row: row["cheapest"] or NOTHING,
            "regret of the best by all odd rounds, first launch": lambda row: percent(row["regret"]),
        },
        numeric=frozenset({1, 2, 3, 8}),
    )


def _factorial(calls: pl.DataFrame) -> TableBlock:
    def gain(name: str) -> Any:
        return lambda row: times(columns_ratio(row, name))

    return table_of(
        "Family and parts in the first launch (interaction: the gain of both over the product of the others)",
        calls.iter_rows(named=True),
        {
            "call": lambda row: row["case"],
            "another family, whole": gain("family_gain"),
            "its own family, in parts": gain("parts_gain"),
            "both free": gain("both_gain"),
            "interaction": gain("interaction"),
            "the gains": _product,
        },
        numeric=frozenset(range(1, 5)),
    )


def _product(row: Mapping[str, Any]) -> str:
    """Say whether two gains multiply."""
    low, high = row["interaction_low"], row["interaction_high"]
    if low is None or high is None:
        return "too few rounds"
    if low == high == 1:
        return NOTHING  # one of the two alone is the best there is
    if low > 1:
        return "more than multiply"
    return "less than multiply" if high < 1 else "multiply, or cannot be told from it"
