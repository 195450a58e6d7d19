"""What was chosen and what it is worth over every arm, per model and count of microbatches."""

from typing import Any

import altair as alt

from overlayccl_core.report.arms import BIG_BATCH, DEVELOPER, Arm, Run, arm_label, arm_meaning, over_launches
from overlayccl_core.report.blocks import (
    NOTHING,
    TIMES,
    Block,
    Card,
    Cards,
    Table,
    Text,
    count,
    mebibytes,
    missing,
    ms,
    spread,
    times,
)
from overlayccl_core.report.charts import Figure, Ink, figure, named
from overlayccl_core.report.tree import Tree

TRAIN = "Train with: snakemake --profile local all"


def cards_of(tree: Tree) -> Cards:
    """One card for each trained model and count of microbatches."""
    return Cards(cards=tuple(_card(run) for run in tree.runs))


def blocks(tree: Tree) -> list[Block]:
    """Cards of a run's models, then each model's arms as a figure and a table."""
    if not tree.runs:
        return [missing("No model was trained in this run, so there are no step times.", TRAIN)]
    found: list[Block] = [Text(text=READING), _meanings(tree)]
    for run in tree.runs:
        found += [_verdict(run), _figure(run), _table(run)]
    return found


READING = (
    "A step is a whole training step (forward, backward, optimizer) on the slowest rank. Every arm computes "
    "each "
    "microbatch with the same matrix products; only when and how the collective library is called differs. "
    "Ratios "
    "are of steps taken in turn within one launch of the ranks; the figure is the median over launches, in "
    "brackets its 95% interval (launches resampled, then steps). A ratio of 2 means twice as fast."
)


def _card(run: Run) -> Card:
    chosen, developer, other = _chosen(run), run.arms.get(DEVELOPER), run.best_other
    launches = count(run.launches, "launch", "launches")
    if chosen is None:
        return Card(
            title=run.name,
            figure=NOTHING,
            unit="deployed differently at its Cases" if run.deployed else "nothing was chosen yet",
            lines=(f"{count(len(run.arms), 'arm')} timed in {launches}",),
            tone="plain",
        )
    if chosen.name == DEVELOPER or developer is None:
        return Card(
            title=run.name,
            figure=f"1{TIMES}",
            unit="nothing beats the baseline",
            lines=(f"developer's calls stay: {spread(chosen.us)} a step", launches),
            tone="plain",
        )
    gain = chosen.speedup_over(developer)
    lines = [f"a step takes {ms(_us(chosen))} instead of {ms(_us(developer))}"]
    if other is not None and other.name != DEVELOPER:
        lines.append(f"over the best other arm, {arm_label(other.name)}: {times(chosen.speedup_over(other))}")
    lines.append(f"{launches}, 95% interval in brackets")
    interval = f"({gain.low:.2f} to {gain.high:.2f})" if gain else ""
    return Card(
        title=run.name,
        figure=f"{gain.value:.2f}{TIMES}" if gain else NOTHING,
        unit=f"as fast as developer {interval}",
        lines=tuple(lines),
    )


def _meanings(tree: Tree) -> Table:
    names = dict.fromkeys(arm.name for run in tree.runs for arm in _arms(run))
    return Table(
        title="What the arms are",
        headers=("arm", "what it is"),
        rows=tuple((arm_label(name), arm_meaning(name)) for name in names),
        folded=True,
    )


def _verdict(run: Run) -> Text:
    chosen, other = _chosen(run), run.best_other
    head = f"{run.name}: "
    if chosen is None and run.deployed:
        arms = " and ".join(map(arm_label, run.deployed))
        said = f"its Cases deploy different arms ({arms}), so none of the trained arms is what is deployed."
        return Text(text=head + said, tone="warning")
    if chosen is None:
        return Text(text=f"{head}nothing was chosen for it.", tone="missing")
    if chosen.name == DEVELOPER:
        return Text(
            text=f"{head}nothing beats the baseline, so developer's own calls are deployed.", tone="warning"
        )
    gain = chosen.speedup_over(other) if other else None
    if gain is None or other is None:
        return Text(text=f"{head}{arm_label(chosen.name)} is deployed.", tone="good")
    than = arm_label(other.name)
    if gain.beyond_noise:
        said = f"{arm_label(chosen.name)} is deployed: {times(gain)} as fast as the best other arm, {than}."
    elif gain.not_slower:
        said = f"{arm_label(chosen.name)} is deployed: within noise of the best other arm, {than}: {times(gain)}."
    else:
        said = f"{arm_label(chosen.name)} is deployed and slower than {than}: {times(gain)}."
    return Text(text=head + said, tone="good" if gain.not_slower else "warning")


def _figure(run: Run) -> Figure:
    order = [_row_name(run, arm) for arm in _arms(run)]
    rows = [_bar(run, arm) for arm in _arms(run) if arm.us is not None]
    single = [
        {"arm": _row_name(run, arm), "ms": us.value / 1e3, "text": f"a launch: {ms(us.value)}"}
        for arm in _arms(run)
        for us in (over_launches({key: steps}) for key, steps in arm.timed.items())
        if us is not None
    ]
    quiet = [
        {
            "arm": _row_name(run, arm),
            "ms": arm.quiet_us.value / 1e3,
            "text": f"{arm_label(arm.name)} without communication: {ms(arm.quiet_us.value)}",
        }
        for arm in _arms(run)
        if arm.quiet_us is not None
    ]

    def build(width: int) -> Any:
        y = alt.Y("arm:N", title=None, sort=order)
        x = alt.X("ms:Q", title="step time, ms (less is better)", scale=alt.Scale(zero=True))
        color = alt.Color(
            "role:N",
            title=None,
            scale=alt.Scale(
                domain=["chosen", "other arm", "no rival"],
                range=[Ink.BLUE.value, Ink.ORANGE.value, Ink.GREY.value],
            ),
        )
        data = named("rows")
        bars = alt.Chart(data).mark_bar(opacity=0.28, height=18).encode(x=x, y=y, color=color)
        ticks = (
            alt.Chart(named("single"))
            .mark_tick(color=Ink.MUTED.value, thickness=1, size=14, opacity=0.8)
            .encode(x=x, y=y, description="text:N")
        )
        whiskers = alt.Chart(data).mark_rule(strokeWidth=3).encode(x="low:Q", x2="high:Q", y=y, color=color)
        points = (
            alt.Chart(data)
            .mark_point(filled=True, size=110, opacity=1)
            .encode(x=x, y=y, color=color, description="text:N")
        )
        hollow = (
            alt.Chart(named("quiet"))
            .mark_point(shape="diamond", size=70, filled=False, strokeWidth=2, color=Ink.TEXT.value)
            .encode(x=x, y=y, description="text:N")
        )
        return alt.layer(bars, ticks, whiskers, points, hollow).properties(height=alt.Step(34))

    return figure(
        f"{run.name}: time of a training step by arm",
        "Dot and thick line: median over launches with its 95% interval; thin ticks: single launches; "
        "diamond: the "
        "same arm's step with every collective replaced by local work, the least that no way of "
        "communicating can "
        "go below.",
        build,
        {"rows": rows, "single": single, "quiet": quiet},
    )


def _bar(run: Run, arm: Arm) -> dict[str, Any]:
    us = arm.us
    assert us is not None  # the caller asked
    role = "chosen" if arm.name == run.chosen else "other arm" if arm.rival else "no rival"
    return {
        "arm": _row_name(run, arm),
        "ms": us.value / 1e3,
        "low": us.low / 1e3,
        "high": us.high / 1e3,
        "role": role,
        "text": f"{arm_label(arm.name)}: {spread(us)}",
    }


def _table(run: Run) -> Table:
    chosen = _chosen(run)
    rows = []
    for arm in _arms(run):
        ratio = times(chosen.speedup_over(arm)) if chosen and arm is not chosen else NOTHING
        rows.append(
            (
                _row_name(run, arm),
                spread(arm.us),
                ratio,
                ms(_quiet(arm)),
                NOTHING if arm.collectives is None else str(arm.collectives),
                mebibytes(arm.peak_activation_bytes),
            )
        )
    return Table(
        title=f"{run.name}: every arm",
        headers=(
            "arm",
            "step time (95% interval)",
            "chosen is faster by (95% interval)",
            "step without communication",
            "library calls a step, each rank",
            "peak activations, a rank",
        ),
        rows=tuple(rows),
        numeric=frozenset(range(1, 6)),
        strong=frozenset(n for n, arm in enumerate(_arms(run)) if chosen and arm is chosen),
    )


def _arms(run: Run) -> list[Arm]:
    beside = [arm for arm in run.arms.values() if arm.name == BIG_BATCH]
    return [*run.rivals, *beside]


def _row_name(run: Run, arm: Arm) -> str:
    mark = " (chosen)" if arm.name == run.chosen else "" if arm.rival else " (no rival)"
    return arm_label(arm.name) + mark


def _chosen(run: Run) -> Arm | None:
    return run.arms.get(run.chosen) if run.chosen else None


def _us(arm: Arm) -> float | None:
    return arm.us.value if arm.us else None


def _quiet(arm: Arm) -> float | None:
    return arm.quiet_us.value if arm.quiet_us else None
