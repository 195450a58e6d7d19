"""Predicted against measured times of benched and held-out Programs, beside the repeat error."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.measuring import statistics
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.report import accuracy, price_ablations
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    TableBlock,
    Text,
    correlation,
    count,
    missing,
    ms,
    percent,
    table_of,
)
from overlayccl_core.report.charts import Ink, by_look, figure, log_ticks, named
from overlayccl_core.report.terms import priced, timed
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.theta import THETA

HELD_OUT = "held-out mixed Programs"
MEASURED, PREDICTED = "measured, ms (log)", "predicted, ms (log)"
_COLORS = (Ink.ORANGE, Ink.GREEN, Ink.PURPLE, Ink.YELLOW)
_SHAPES = ("square", "triangle-up", "diamond", "cross", "triangle-down")
NOISE = {True: " (noise)", False: "", None: " (too few rounds)"}  # whether a regret is within noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A Program: its predicted and measured time, and its set."""

    name: str
    group: str
    predicted_us: float
    measured: Measurement

    @property
    def measured_us(self) -> float:
        """The estimate over rounds."""
        return self.measured.estimate.value


def blocks(tree: Tree) -> list[Block]:
    """Return the scatter plot, the figures beside the repeat error, and the regret of every choice."""
    right = [*_rightness(tree), *accuracy.blocks(tree), *_regret(tree)]
    return [*_compared(tree), *right, *price_ablations.blocks(tree)]


@sourced
def _compared(tree: Tree) -> list[Block]:
    compared = points(tree)
    if not compared:
        return [missing("No Program was both priced and measured in this run.", f"Measure: {tree.command}")]
    return [_reading(compared), _figure(tree, compared)]


@sourced
def _rightness(tree: Tree) -> Iterator[Block]:
    frames = [f for f in (tree.table(FIDELITY, "fidelity"), tree.of_problems(FIDELITY)) if f is not None]
    if frames:
        together = pl.concat(frames).filter(pl.col("problem").is_null() | pl.col("case").is_not_null())
        yield from (_worst(together), _fidelity(together))


def points(tree: Tree) -> list[Point]:
    """Return every held-out Program, priced by this run's theta, and every benched candidate with a price."""
    return [*_heldout(tree), *_benched(tree)]


def _heldout(tree: Tree) -> Iterator[Point]:
    theta, fidelity = tree.table(THETA, "theta"), tree.table(FIDELITY, "fidelity")
    probes = tree.table(PROBES, "probes")
    if theta is None or fidelity is None or probes is None:
        return
    model = Theta.from_rows(
        theta.iter_rows(named=True),
        residual_low=fidelity["residual_low"][0],
        residual_high=fidelity["residual_high"][0],
    )
    rows = probes.filter(pl.col("role") == "heldout")
    measured = measurements(rows.iter_rows(named=True))
    for row in rows.unique("program", keep="first", maintain_order=True).iter_rows(named=True):
        us = price(loads(row["program_json"]), model).us
        if us and row["program"] in measured:
            timed = measured[row["program"]]
            yield Point(name=row["probe"], group=HELD_OUT, predicted_us=us, measured=timed)


def _benched(tree: Tree) -> Iterator[Point]:
    prices, bench = tree.of_problems(PRICES), tree.of_problems(BENCH)
    if bench is None:
        return
    known = priced(prices, tree.of_searches(CANDIDATES))
    for (case, direction), measured in timed(bench).items():
        for program, (candidate, one) in measured.items():
            us = known[case, direction, program].predicted_us if (case, direction, program) in known else None
            if us:
                name = f"{candidate}, {case}, {direction}"
                yield Point(name=name, group=problem_of(case), predicted_us=us, measured=one)


def _reading(compared: Iterable[Point]) -> Text:
    ratios = np.array([p.predicted_us / p.measured_us for p in compared])
    return Text(
        text=(
            f"{count(len(ratios), 'Program')} with a price and a measurement. Half of the prices are within "
            f"{percent(float(np.median(np.abs(ratios - 1))))} of the measured time. Noise alone makes measured "
            f"times wrong by {percent(_repeat(compared))} in the median (half of what even and odd rounds differ "
            "by); no model can be asked to be closer than that. Times are of one pass (all exchanges of a Program "
            "once) on the slowest rank."
        )
    )


def _repeat(compared: Iterable[Point]) -> float:
    return statistics.repeat_error(p.measured.samples_us for p in compared)


def _figure(tree: Tree, compared: list[Point]) -> Figure:
    groups = sorted({p.group for p in compared} - {HELD_OUT})
    marks = {HELD_OUT: (Ink.BLUE, "circle")} | {group: mark_of(n) for n, group in enumerate(groups)}
    repeat = _repeat(compared)
    rows = [
        {
            "predicted": p.predicted_us / 1e3,
            "measured": p.measured_us / 1e3,
            "set": p.group,
            "text": f"{p.name}: predicted {ms(p.predicted_us)}, measured {ms(p.measured_us)}",
        }
        for p in compared
    ]
    every = [us / 1e3 for p in compared for us in (p.predicted_us, p.measured_us)]
    ends = [min(every) / 1.2, max(every) * 1.2]
    band = [{"x": at, "low": at * (1 - repeat), "high": at * (1 + repeat), "same": at} for at in ends]

    def build(width: int) -> Any:
        scale = alt.Scale(type="log", domain=ends, nice=False)
        axis = alt.Axis(values=log_ticks(*ends))
        x = alt.X("x:Q", scale=scale, title=MEASURED, axis=axis)
        area = (
            alt.Chart(named("band"))
            .mark_area(color=Ink.MUTED.value, opacity=0.22, clip=True, aria=False)
            .encode(x=x, y=alt.Y("low:Q", scale=scale, title=PREDICTED, axis=axis), y2="high:Q")
        )
        line = (
            alt.Chart(named("band"))
            .mark_line(color=Ink.MUTED.value, strokeWidth=1, aria=False)
            .encode(x=x, y=alt.Y("same:Q", title=PREDICTED, axis=axis))
        )
        dots = (
            alt.Chart(named("rows"))
            .mark_point(filled=True, size=45, opacity=0.8)
            .encode(
                x=alt.X("measured:Q", scale=scale, title=MEASURED, axis=axis),
                y=alt.Y("predicted:Q", scale=scale, title=PREDICTED, axis=axis),
                color=by_look(alt.Color, "set", {group: ink.value for group, (ink, _) in marks.items()}),
                shape=by_look(alt.Shape, "set", {group: shape for group, (_, shape) in marks.items()}),
                description="text:N",
            )
        )
        return alt.layer(area, line, dots).properties(height=min(width, 460) - 60)

    return figure(
        f"{tree.name}: predicted against measured time of a pass",
        f"Every dot is a Program; on the line the prediction is right. Grey band: the repeat error, "
        f"{percent(repeat)} either way. Held-out Programs were drawn at random and never used in the fit.",
        build,
        {"band": band, "rows": rows},
    )


def mark_of(number: int) -> tuple[Ink, str]:
    """Return colour and shape of a Problem's dots; the first 20 differ in one of them."""
    return _COLORS[number % len(_COLORS)], _SHAPES[number % len(_SHAPES)]


def _worst(rows: pl.DataFrame) -> Text:
    heldout, cases = rows.filter(pl.col("case").is_null()), rows.filter(pl.col("case").is_not_null())
    said = [
        f"On {row['n']} {HELD_OUT} the median error is {percent(row['median_rel_error'])} (repeat error "
        f"{percent(row['repeat_rel_error'])}), the rank correlation {correlation(row['spearman'])} (even "
        f"with odd rounds {correlation(row['repeat_spearman'])}). Of {row['pairs']} pairs whose times differ by "
        f"more than two standard errors, {percent(row['pair_accuracy'])} are in the right order."
        for row in heldout.iter_rows(named=True)
    ]
    if not cases.is_empty():
        near = (pl.col("top1_regret") <= 0.05) | pl.col("top1_within_noise")  # null: too few rounds
        told = cases.filter(pl.col("top1_regret").is_not_null(), near.is_not_null())
        untold = cases.filter(pl.col("top1_regret").is_not_null()).height - told.height
        said.append(
            f"In {told.filter(near).height} of {count(told.height, 'Case and direction', 'Cases and directions')} "
            "the model's first choice is at most 5% above the fastest measured, or within noise of it (lossy "
            "Programs left out" + (f"; {untold} more had too few rounds to tell)." if untold else ").")
        )
    return Text(text=" ".join(said))


def _fidelity(rows: pl.DataFrame) -> TableBlock:
    return table_of(
        "How right the model was, beside how well the measurement repeats itself",
        rows.iter_rows(named=True),
        {
            "Programs of": lambda row: f"{row['case']}, {row['direction']}" if row["case"] else HELD_OUT,
            "Programs": lambda row: str(row["n"]),
            "rounds": lambda row: str(row["rounds"]),
            "median error": lambda row: percent(row["median_rel_error"]),
            "repeat error": lambda row: percent(row["repeat_rel_error"]),
            "rank correlation (Spearman)": lambda row: correlation(row["spearman"]),
            "even with odd rounds": lambda row: correlation(row["repeat_spearman"]),
            "pairs in the right order": lambda row: (
                f"{percent(row['pair_accuracy'])} of {row['pairs']}" if row["pairs"] else "no pair apart"
            ),
            "model's first choice, above the fastest": lambda row: (
                percent(row["top1_regret"])
                + NOISE[row["top1_within_noise"]] * (row["top1_regret"] is not None)
            ),
        },
        numeric=frozenset(range(1, 9)),
        folded=True,
    )


@sourced
def _regret(tree: Tree) -> list[Block]:
    if tree.deployed is None:
        return [
            missing(
                "Nothing was timed again after the choice in this run, so there is no regret to tell.", ""
            )
        ]
    rows = tree.deployed.filter(pl.col("regret").is_not_null() | pl.col("model_regret").is_not_null())
    if rows.is_empty():
        return []
    text = (
        "Regret is how much slower in the bench a candidate is than the fastest measured one of the same "
        f"Case, lossy ones left out: at most {_most(rows['model_regret'])} for what the model alone would "
        f"have picked, at most {_most(rows['regret'])} for what is deployed. The latter was picked by these "
        "very rounds: where it is the bench's fastest, its regret is 0 by construction and tells nothing "
        "about another run."
    )
    return [Text(text=text)]


def _most(values: pl.Series) -> str:
    known = values.drop_nulls()
    return percent(max(known)) if len(known) else NOTHING
