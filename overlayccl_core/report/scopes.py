"""The page of the target `scopes`: arms alone, beside a matmul and in the step, and where their orders differ."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.configuration.models import label
from overlayccl_core.report.blocks import (
    Block,
    Figure,
    PageSection,
    Text,
    correlation,
    page_sources,
    percent,
    table_of,
    with_sources,
)
from overlayccl_core.report.charts import Ink, figure, named
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.scopes import SCOPE_ORDERS, SCOPED_ARMS, TimedScope

LEAD = "The same Programs alone, beside a running matmul and in a training step: which order counts."
FOLLOWS = "The choice follows the step."
STEP = "step"


def page(arms: pl.DataFrame, orders: pl.DataFrame, name: str) -> str:
    """Return the HTML. arms, orders: the tables `scoped_arms` and `scope_orders`; name: of the run."""
    section = PageSection(
        anchor="scopes",
        title="Orders of arms in three scopes",
        blocks=with_sources(page_sources(SCOPED_ARMS, SCOPE_ORDERS), _blocks(arms, orders)),
    )
    about = f"{arms.height} arms of training steps."
    return page_of(name, about, LEAD, section)


def _blocks(arms: pl.DataFrame, orders: pl.DataFrame) -> Iterator[Block]:
    yield Text(text=sentence(orders))
    yield from (_figure(str(model), int(m), here) for (model, m), here in _steps(arms))
    yield table_of(
        "Each model, with arms in the order of their steps",
        orders.iter_rows(named=True),
        {
            "step of": lambda row: label(row["model"], row["microbatches"]),
            "scope": lambda row: row["scope"],
            "arms": lambda row: str(row["arms"]),
            "rank correlation": lambda row: correlation(row["spearman"]),
            "pairs in another order": lambda row: f"{percent(row['otherwise'])} of {row['pairs']}",
            "fastest": lambda row: row["fastest"],
            "fastest in the step": lambda row: row["fastest_in_step"],
        },
        numeric=frozenset(range(2, 5)),
    )


def sentence(orders: pl.DataFrame) -> str:
    """Say in how many pairs of arms each scope's order is another than the step's, and which one is followed."""
    said = []
    for scope in TimedScope:
        here = orders.filter(scope=scope)
        pairs = int(here["pairs"].sum())
        other = round(float((here["otherwise"].fill_null(0.0) * here["pairs"]).sum()))
        fastest = here.filter(pl.col("fastest") != pl.col("fastest_in_step")).height
        said.append(
            f"{scope}: {other} of {pairs} pairs of arms are in another order than in the step, and another arm is "
            f"the fastest in {fastest} of {here.height} steps"
        )
    return f"{'; '.join(said)}. Pairs with steps nearer than two standard errors do not count. {FOLLOWS}"


def _steps(arms: pl.DataFrame) -> Any:
    return arms.group_by("model", "microbatches", maintain_order=True)


def _figure(model: str, microbatches: int, arms: pl.DataFrame) -> Figure:
    """Draw the rank of each arm in each scope; lines that cross are pairs in another order."""
    scopes = [*TimedScope, STEP]
    rows = [
        {"scope": str(scope), "arm": arm, "rank": rank}
        for scope in scopes
        for rank, arm in enumerate(arms.sort(f"{scope}_us")["arm"], 1)
    ]

    def build(width: int) -> Any:
        x = alt.X("scope:N", title=None, sort=[str(scope) for scope in scopes], axis=alt.Axis(labelAngle=0))
        scale, axis = alt.Scale(reverse=True), alt.Axis(tickMinStep=1)
        y = alt.Y("rank:Q", title="rank, 1: the fastest", scale=scale, axis=axis)
        lines = alt.Chart(named("rows")).mark_line(color=Ink.BLUE.value, point=True)
        names = alt.Chart(named("rows")).mark_text(align="right", dx=-8, color=Ink.TEXT.value)
        text = names.transform_filter(alt.datum.scope == STEP).encode(x=x, y=y, text="arm:N")
        return alt.layer(lines.encode(x=x, y=y, detail="arm:N"), text).properties(height=alt.Step(30))

    return figure(
        label(model, microbatches), "Lines that cross: pairs in another order.", build, {"rows": rows}
    )
