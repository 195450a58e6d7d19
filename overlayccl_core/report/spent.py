"""Cost of a run, and the training steps until its deployment has saved that time."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np

from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.blocks import NOTHING, Block, Table, Text, count, duration, missing, ms, of
from overlayccl_core.report.charts import Ink, figure, is_narrow, named
from overlayccl_core.report.payback import Cost, cost_of, payback
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.rule import on_ranks
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
    if rows := [_row(tree, worth, cost) for worth in tree.worths if worth.deployed]:
        yield from (Text(text=READING), _paid_back(rows))
    else:
        yield missing("Nothing that is deployed was timed in a model's steps, so nothing pays it back.", "")


def _spent(tree: Tree) -> list[Block]:
    with tree.reading() as read:
        cost = cost_of(tree)
    if cost is None:
        return [missing("No job of this run has left its duration.", "")]
    said = f"No break-even is told: {', '.join(cost.unknown)} left no duration."
    unknown = [Text(text=said, tone="warning")] if cost.unknown else []
    return [*of(read, [*unknown, _node_seconds(cost)]), Text(text=NODES), *_jobs(tree)]


def _row(tree: Tree, worth: Worth, cost: Cost | None) -> tuple[str, ...]:
    mine, developer, rival = worth.deployed, worth.developer, worth.rival
    return (
        f"{worth.model}: {mine.name if mine else NOTHING}",
        _first_and_steady(tree, worth, developer),
        _first_and_steady(tree, worth, mine),
        NOTHING if developer is None else f"{_break_even(worth, developer, cost)} ({developer.name})",
        NOTHING if rival is None else f"{_break_even(worth, rival, cost)} ({rival.name})",
    )


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


def _break_even(worth: Worth, other: SplitRow, cost: Cost | None) -> str:
    """Format the break-even: `1,200 steps, 3 min 10 s`."""
    mine = worth.deployed
    if mine is not None and other.is_program_of(mine):
        return "it is what is deployed"
    paid = payback(worth, other, cost)
    if mine is None or paid.saved_us is None:
        return "not faster"
    if paid.steps is None:
        return f"{NOTHING}; saves {ms(paid.saved_us)} a step"
    return f"{figures(paid.steps)} steps, {duration(paid.steps * mine.step_us / 1e6)}"


def _paid_back(rows: list[tuple[str, ...]]) -> Table:
    return Table(
        title="After how many training steps this run is paid back",
        headers=(
            "model: what is deployed",
            "developer's first and steady step",
            "its first and steady step",
            "break-even over developer",
            "break-even over the best other that needs no search at the same or less memory",
        ),
        rows=tuple(rows),
        numeric=frozenset({1, 2}),
    )


def _node_seconds(cost: Cost) -> Table:
    """Show each measuring job by itself; the others by rule, as they hold no machine."""
    measured = [job for job in cost.jobs if job.rule in on_ranks()]
    searched = [job for job in cost.jobs if job.rule == "search"]
    rest = [job for job in cost.jobs if job not in (*measured, *searched)]
    parts = [(job.name, [job]) for job in measured]
    parts += [(f"search, {count(len(searched), 'job')}", searched)] if searched else []
    parts += [(f"all else, {count(len(rest), 'job')}", rest)] if rest else []
    parts.append(("together", list(cost.jobs)))
    return Table(
        title="What was spent, in seconds of the clock and of nodes",
        headers=("job", "wall-clock seconds", "node-seconds"),
        rows=tuple(
            (
                name,
                f"{sum(job.seconds for job in jobs):,.0f}",
                _sum_of_nodes([cost.node_seconds(job) for job in jobs]),
            )
            for name, jobs in parts
        ),
        numeric=frozenset({1, 2}),
        strong=frozenset({len(parts) - 1}),
    )


def _sum_of_nodes(seconds: list[float | None]) -> str:
    known = [s for s in seconds if s is not None]
    return f"{sum(known):,.0f}" if len(known) == len(seconds) else NOTHING


@sourced
def _jobs(tree: Tree) -> Iterator[Block]:
    """Draw all jobs but those of showing rules, which may have no time yet: a redrawn page stays the same."""
    phases = [phase for phase in tree.phases if not phase.shows]
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
