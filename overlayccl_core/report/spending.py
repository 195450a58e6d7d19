"""Cost of a run, and the training steps until its deployment has saved that time."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    TableBlock,
    Text,
    count,
    duration,
    missing,
    ms,
    table_of,
    with_sources,
)
from overlayccl_core.report.charts import Ink, figure, is_narrow, named
from overlayccl_core.report.payback import Cost, cost_of, payback
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.tables.steps import CONFIRMED_STEPS

READING = (
    "Break-even: the training step at which what is deployed has saved the time that finding it took. That "
    "time is all seconds of measuring, proving and searching (compiling is in them), for all Problems and "
    "models together. A step saves the other's steady step less that of what is deployed. Every model is "
    "taken as if it paid alone, and what is not faster beyond noise pays nothing back. Developer's calls are "
    "taken at the count of microbatches at which they alone are fastest. First step: the one after a start "
    "of the ranks, which loads, allocates and, where the backend does, compiles. First and steady step are "
    "medians over the launches that chose nothing."
)
NODES = (
    "A job that measures has all nodes to itself; any other needs a part of one. Seconds are of the last run of "
    "each job: they do not hold what was measured before an interruption. Summary and report, which only show, "
    "are left out."
)


def blocks(tree: Tree) -> list[Block]:
    """Return break-even by model, node-seconds by job, and a figure of all jobs."""
    return [*_payback(tree), *_spent(tree)]


@sourced
def _payback(tree: Tree) -> Iterator[Block]:
    cost = cost_of(tree)
    if worths := [worth for worth in tree.worths if worth.deployed]:
        yield from (Text(text=READING), _paid_back(tree, worths, cost))
    else:
        yield missing("Nothing that is deployed was timed in a model's steps, so nothing pays it back.", "")


def _spent(tree: Tree) -> list[Block]:
    with tree.reading() as read:
        cost = cost_of(tree)
    if cost is None:
        return [missing("No job of this run has left its duration.", "")]
    said = f"No break-even is told: {', '.join(cost.unknown)} left no duration."
    unknown = [Text(text=said, tone="warning")] if cost.unknown else []
    return [*with_sources(read, [*unknown, _node_seconds(cost)]), Text(text=NODES), *_jobs(tree)]


def _first_and_steady(tree: Tree, worth: Worth, one: SplitRow | None) -> str:
    """Format first and steady step: `1,720 ms, then 860 ms`."""
    if one is None:
        return NOTHING
    steps = tree.table(CONFIRMED_STEPS, "confirmed_steps")
    first: list[float] = []
    if steps is not None:
        mine = steps.filter(model=worth.model, microbatches=one.microbatches, arm=one.arm)
        first = [us[0] for us in mine["cold_us"].to_list() if us]
    return f"{ms(float(np.median(first)) if first else None)}, then {ms(one.step_us)}"


def _break_even(worth: Worth, other: SplitRow | None, cost: Cost | None) -> str:
    """Format the break-even: `1,200 steps, 3 min 10 s (developer at M = 1)`."""
    mine = worth.deployed
    if other is None:
        return NOTHING
    paid = payback(worth, other, cost)
    if mine is not None and other.is_program_of(mine):
        said = "it is what is deployed"
    elif mine is None or paid.saved_us is None:
        said = "not faster"
    elif paid.steps is None:
        said = f"{NOTHING}; saves {ms(paid.saved_us)} a step"
    else:
        said = f"{figures(paid.steps)} steps, {duration(paid.steps * mine.step_us / 1e6)}"
    return f"{said} ({other.name})"


def _paid_back(tree: Tree, worths: Sequence[Worth], cost: Cost | None) -> TableBlock:
    return table_of(
        "After how many training steps this run is paid back",
        worths,
        {
            "model: what is deployed": lambda w: f"{w.model}: {w.deployed.name if w.deployed else NOTHING}",
            "developer's first and steady step": lambda w: _first_and_steady(tree, w, w.developer),
            "its first and steady step": lambda w: _first_and_steady(tree, w, w.deployed),
            "break-even over developer": lambda w: _break_even(w, w.developer, cost),
            "break-even over the best other that needs no search at the same or less memory": lambda w: (
                _break_even(w, w.rival, cost)
            ),
        },
        numeric=frozenset({1, 2}),
    )


def _node_seconds(cost: Cost) -> TableBlock:
    """Show each measuring job by itself; the others by rule, as they hold no machine."""
    measured = [job for job in cost.jobs if job.declared.measures]
    searched = [job for job in cost.jobs if job.rule == "search"]
    rest = [job for job in cost.jobs if job not in (*measured, *searched)]
    parts = [(job.name, [job]) for job in measured]
    parts += [(f"search, {count(len(searched), 'job')}", searched)] if searched else []
    parts += [(f"all else, {count(len(rest), 'job')}", rest)] if rest else []
    parts.append(("together", list(cost.jobs)))
    return table_of(
        "What was spent, in seconds of the clock and of nodes",
        parts,
        {
            "job": lambda part: part[0],
            "wall-clock seconds": lambda part: f"{sum(job.seconds for job in part[1]):,.0f}",
            "node-seconds": lambda part: _sum_of_nodes([cost.node_seconds(job) for job in part[1]]),
        },
        numeric=frozenset({1, 2}),
        strong=frozenset({len(parts) - 1}),
    )


def _sum_of_nodes(seconds: list[float | None]) -> str:
    known = [s for s in seconds if s is not None]
    return f"{sum(known):,.0f}" if len(known) == len(seconds) else NOTHING


@sourced
def _jobs(tree: Tree) -> Iterator[Block]:
    """Draw all jobs but those of showing rules, which may have no time yet: a redrawn page stays the same."""
    phases = [phase for phase in tree.phases if not phase.declared.shows]
    rows: list[dict[str, Any]] = [
        {
            "phase": phase.name,
            "s": phase.seconds,
            "label": duration(phase.seconds),
            "text": f"{phase.name}: {duration(phase.seconds)}",
        }
        for phase in phases
    ]
    most = max(row["s"] for row in rows)

    def build(width: int) -> Any:
        room = 1.5 if is_narrow(width) else 1.3  # for the longest bar's label
        bars = alt.Chart(named("rows")).encode(
            y=alt.Y("phase:N", title=None, sort=None, axis=alt.Axis(labelLimit=150))
        )
        drawn = bars.mark_bar(color=Ink.BLUE.value, height=13).encode(
            x=alt.X("s:Q", title="seconds", scale=alt.Scale(domain=[0, most * room])), description="text:N"
        )
        labels = bars.mark_text(align="left", dx=5, color=Ink.TEXT.value).encode(x="s:Q", text="label:N")
        return alt.layer(drawn, labels).properties(height=alt.Step(21))

    total = duration(sum(phase.seconds for phase in phases))
    yield figure(
        f"{tree.name}: how long each job ran",
        f"Wall-clock seconds of the last run of each job; together {total}, though some ran side by side.",
        build,
        {"rows": rows},
    )
