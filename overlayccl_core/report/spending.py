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
    duration,
    missing,
    ms,
    percent,
    table_of,
    with_sources,
)
from overlayccl_core.report.charts import Ink, figure, is_narrow, named
from overlayccl_core.report.end_to_end import EndToEnd, end_to_end
from overlayccl_core.report.payback import (
    Cost,
    cold_steps_us,
    cost_of,
    known_sum,
    payback,
    start_us,
    steps_text,
    together_over,
)
from overlayccl_core.report.tree import JobTime, Tree, sourced
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.rule import ALL, rules

NO_SEARCH = "no search needed"
READING = (
    "Break-even: the training step at which what is deployed has saved the time that finding it took. That time "
    "is all that the model needed, as if it had been the only one: measuring, proving, searching, training and "
    "the launches after the choice, compiling in all of them, launches that were thrown away, and jobs that "
    "failed or were cut off; then what a start of the deployed way takes more than one of the other. A step "
    "saves its steady time, times the gain less 1, so the brackets are those of the gain. What is not faster "
    "beyond noise pays nothing back. Developer's calls are taken at the count of microbatches at which they "
    "alone are fastest. Together: every job counts once, and each model trains one step after another beside the "
    "others. First step: the one after a start of the ranks, which loads, allocates and, where the backend does, "
    "compiles. First and steady step are medians over the launches that chose nothing."
)
NODES = (
    "A job that measures has all nodes to itself; any other needs a part of one. Without tables: attempts that "
    "failed or were cut off, counted in the seconds before it. What was measured in an attempt that was cut off "
    "is kept and used, so it is not lost. Waits for another run's measurement on this machine are in the seconds. "
    "Rules that only show results are left out: "
)
SHARES = (
    "A job that served several models is spread evenly over them, so the shares add up to the whole. Alone: "
    "every job that served a model, in full, so these do not add up."
)
END_TO_END = (
    "What if nothing had been priced or searched, and every proven candidate had been trained as the finalists "
    "were? Seconds of an arm are those of this run's training: all launches of a finalist, with its part of "
    "starting ranks, compiling, inspection and repeated launches. An arm tries one candidate at every Case of "
    "the step at once, so this is the fewest that tuning by training alone needs, if it tries each once and no "
    "combination twice. It would have to know the candidates, too. Here: all that the model needed alone, the "
    "launches after the choice among it."
)


def blocks(tree: Tree) -> list[Block]:
    """Return break-even by model, the account by phase and model, tuning end to end, and a figure of all jobs."""
    return [*_payback(tree), *_spent(tree), *_tuned(tree)]


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
    left_out = ", ".join(name for name, rule in rules(ALL).items() if rule.shows)
    shown = with_sources(read, [*unknown, _account(cost), Text(text=f"{NODES}{left_out}.")])
    shares = with_sources(read, [_shares(cost), Text(text=SHARES)]) if cost.trains else []
    return [*shown, *shares, *_jobs(tree)]


@sourced
def _tuned(tree: Tree) -> Iterator[Block]:
    if models := end_to_end(tree, cost_of(tree)):
        yield from (Text(text=END_TO_END), _end_to_end(models))


def _first_and_steady(tree: Tree, worth: Worth, one: SplitRow | None) -> str:
    """Format first and steady step: `1,720 ms, then 860 ms`."""
    if one is None:
        return NOTHING
    first = [us[0] for us in cold_steps_us(tree, worth, one)]
    return f"{ms(float(np.median(first)) if first else None)}, then {ms(one.step_us)}"


def _break_even(tree: Tree, worth: Worth, other: SplitRow | None, cost: Cost | None) -> str:
    """Format the break-even: `1,200 (1,100..1,400) steps, 3 min 10 s (developer at M = 1)`."""
    mine = worth.deployed
    if other is None or mine is None:
        return NOTHING
    if other.is_program_of(mine):
        return f"it is what is deployed ({other.name})"
    paid = payback(worth, other, cost, start_us(tree, worth, other))
    took = f", {duration(paid.steps.value * mine.step_us / 1e6)}" if paid.steps else ""
    return f"{steps_text(paid)}{took} ({other.name})"


def _paid_back(tree: Tree, worths: Sequence[Worth], cost: Cost | None) -> TableBlock:
    def row(worth: Worth) -> tuple[str, ...]:
        return (
            f"{worth.model}: {worth.deployed.name if worth.deployed else NOTHING}",
            _first_and_steady(tree, worth, worth.developer),
            _first_and_steady(tree, worth, worth.deployed),
            _break_even(tree, worth, worth.developer, cost),
            NO_SEARCH if worth.needs_no_search(worth.rival) else _break_even(tree, worth, worth.rival, cost),
        )

    all_of_them = [steps_text(together_over(tree, worths, cost, rival=rival)) for rival in (False, True)]
    return TableBlock(
        title="After how many training steps this run is paid back",
        headers=(
            "model: what is deployed",
            "developer's first and steady step",
            "its first and steady step",
            "break-even over developer",
            "break-even over the best other that needs no search at the same or less memory",
        ),
        rows=(*map(row, worths), ("together", "", "", *all_of_them)),
        numeric=frozenset({1, 2}),
        strong=frozenset({len(worths)}),
    )


def _account(cost: Cost) -> TableBlock:
    """Show the jobs of each rule: no phase is left out, as the rules are those of the run."""
    rows = [_phase(cost, name, jobs) for name, jobs in cost.by_rule.items()]
    usd = [cost.usd(cost.node_seconds)]
    if cost.asked_usd is not None:
        rows.append(("answers of language models", *[NOTHING] * 4, _amount(cost.asked_usd, 2)))
        usd.append(cost.asked_usd)
    rows.append((*_phase(cost, "together", cost.jobs)[:-1], _amount(known_sum(usd), 2)))
    headers = ("phase", "jobs", "wall-clock seconds", "of it without tables", "node-seconds", "USD")
    shown = len(headers) if cost.node_usd_per_hour is not None or cost.asked_usd is not None else -1
    return TableBlock(
        title="What was spent, in seconds of the clock and of nodes",
        headers=headers[:shown],
        rows=tuple(row[:shown] for row in rows),
        numeric=frozenset(range(1, len(headers[:shown]))),
        strong=frozenset({len(rows) - 1}),
    )


def _phase(cost: Cost, name: str, jobs: Sequence[JobTime]) -> tuple[str, ...]:
    nodes = known_sum(map(cost.node_seconds_of, jobs))
    return (
        name,
        str(len(jobs)),
        _amount(sum(job.seconds for job in jobs), 1),
        _amount(sum(job.lost_s for job in jobs), 1),
        _amount(nodes, 1),
        _amount(cost.usd(nodes), 2),
    )


def _amount(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}"


def _shares(cost: Cost) -> TableBlock:
    whole, shares = cost.seconds, cost.shares()
    rows = [
        (
            who,
            _amount(seconds, 1),
            percent(seconds / whole),
            _amount(cost.alone(who).seconds, 1),
            _amount(cost.alone(who).node_seconds, 1),
        )
        for who, seconds in shares.items()
    ]
    return TableBlock(
        title="Whom it was spent for",
        headers=("model", "share, seconds", "of the whole", "alone, seconds", "alone, node-seconds"),
        rows=(*rows, ("together", _amount(sum(shares.values()), 1), percent(1.0), "", "")),
        numeric=frozenset({1, 2, 3, 4}),
        strong=frozenset({len(rows)}),
    )


def _end_to_end(models: Sequence[EndToEnd]) -> TableBlock:
    return table_of(
        "What tuning end to end would have taken",
        models,
        {
            "model": lambda one: one.model,
            "candidates priced": lambda one: f"{one.priced:,}",
            "proven": lambda one: f"{one.proven:,}",
            "arms that hold them": lambda one: f"{one.arms:,}",
            "seconds of an arm": lambda one: _amount(one.arm_s, 1),
            "all, hours": lambda one: figures(one.seconds / 3600),
            "here, hours": lambda one: figures(one.here.seconds / 3600),
            "here, seconds a candidate": lambda one: figures(one.here.seconds / one.proven),
            "over the node-seconds here": lambda one: (
                NOTHING if one.times_as_long is None else figures(one.times_as_long)
            ),
        },
        numeric=frozenset(range(1, 9)),
    )


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
