"""What a run cost, and when what it deploys has saved that again."""

from typing import Any

import altair as alt

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.arms import Arm, Run, arm_label
from overlayccl_core.report.blocks import NOTHING, Block, Table, Text, count, duration, missing, ms
from overlayccl_core.report.charts import Figure, Ink, figure, is_narrow, named
from overlayccl_core.report.payback import MEASURED, Cost, cost_of, deployed_and_developer, payback
from overlayccl_core.report.tree import Tree

READING = (
    "Break-even: the training step at which what is deployed has saved the time that finding it took. That time "
    "is all seconds of measuring, proving and searching (compiling is in them), for all Problems and models "
    "together. A step saves the other arm's steady step less the chosen one's. Every model is taken as if it "
    "paid alone, and what is not faster beyond noise pays nothing back. First step: the one after a start of "
    "the ranks, which loads, allocates and, where the backend does, compiles. First and steady step are medians "
    "over launches."
)
NODES = (
    "A job that measures has all nodes to itself; any other needs a part of one. Seconds are of the last run of "
    "each job: they do not hold what was measured before an interruption. Summary and report, which only show, "
    "are left out."
)


def blocks(tree: Tree) -> list[Block]:
    """Break-even by model, node-seconds by job, and a figure of all jobs."""
    cost = cost_of(tree)
    parts: list[Block] = []
    if rows := [
        _row(run, chosen, developer, cost) for run, chosen, developer in deployed_and_developer(tree)
    ]:
        parts += [Text(text=READING), _paid_back(rows)]
    else:
        parts.append(missing("No trained arm is deployed in this run, so nothing pays it back.", ""))
    if cost is None:
        return [*parts, missing("No job of this run has left its duration.", "")]
    if cost.unknown:
        said = f"No break-even is told: {', '.join(cost.unknown)} left no duration."
        parts.append(Text(text=said, tone="warning"))
    return [*parts, _node_seconds(cost), Text(text=NODES), _jobs(tree)]


def _row(run: Run, chosen: Arm, developer: Arm, cost: Cost | None) -> tuple[str, ...]:
    other = run.best_other
    return (
        f"{run.name}: {arm_label(chosen.name)}",
        _cold_and_steady(developer),
        _cold_and_steady(chosen),
        _break_even(chosen, developer, cost),
        NOTHING if other is None else f"{_break_even(chosen, other, cost)} ({arm_label(other.name)})",
    )


def _cold_and_steady(arm: Arm) -> str:
    return f"{ms(arm.cold_us)}, then {ms(arm.us.value if arm.us else None)}"


def _break_even(chosen: Arm, other: Arm, cost: Cost | None) -> str:
    """`1,200 steps, 3 min 10 s`."""
    if chosen.name == ArmName.DEVELOPER and other.name == ArmName.DEVELOPER:
        return "it is developer's"
    paid = payback(chosen, other, cost)
    if paid.saved_us is None:
        return "not faster"
    if paid.steps is None or chosen.us is None:
        return f"{NOTHING}; saves {ms(paid.saved_us)} a step"
    return f"{figures(paid.steps)} steps, {duration(paid.steps * chosen.us.value / 1e6)}"


def _paid_back(rows: list[tuple[str, ...]]) -> Table:
    return Table(
        title="After how many training steps this run is paid back",
        headers=(
            "model: chosen arm",
            "developer's first and steady step",
            "chosen's first and steady step",
            "break-even over developer",
            "break-even over the best other arm",
        ),
        rows=tuple(rows),
        numeric=frozenset({1, 2}),
    )


def _node_seconds(cost: Cost) -> Table:
    """Each measured job by itself; the others by rule, as they hold no machine."""
    measured = [job for job in cost.jobs if job.rule in MEASURED]
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


def _jobs(tree: Tree) -> Figure:
    rows: list[dict[str, Any]] = [
        {
            "phase": phase.name,
            "s": phase.seconds,
            "label": duration(phase.seconds),
            "text": f"{phase.name}: {duration(phase.seconds)}",
        }
        for phase in tree.phases
    ]
    most = max(row["s"] for row in rows)

    def build(width: int) -> Any:
        room = 1.5 if is_narrow(width) else 1.3  # for the longest bar's label
        bars = alt.Chart(named("rows")).encode(
            y=alt.Y("phase:N", title=None, sort=None, axis=alt.Axis(labelLimit=150)),
        )
        drawn = bars.mark_bar(color=Ink.BLUE.value, height=13).encode(
            x=alt.X("s:Q", title="seconds", scale=alt.Scale(domain=[0, most * room])), description="text:N"
        )
        labels = bars.mark_text(align="left", dx=5, color=Ink.TEXT.value).encode(x="s:Q", text="label:N")
        return alt.layer(drawn, labels).properties(height=alt.Step(21))

    total = duration(sum(phase.seconds for phase in tree.phases))
    return figure(
        f"{tree.name}: how long each job ran",
        f"Wall-clock seconds of the last run of each job; together {total}, though some ran side by side.",
        build,
        {"rows": rows},
    )
