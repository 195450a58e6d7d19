"""What was chosen and what it is worth over every arm, per model and count of microbatches."""

from typing import Any

import altair as alt

from overlayccl_core.measuring.arms import FINALISTS, ArmName, is_framework
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.arms import (
    Arm,
    Run,
    arm_label,
    arm_meaning,
    over_launches,
)
from overlayccl_core.report.blocks import (
    INTERVALS,
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
    parts: list[Block] = [Text(text=READING), Text(text=INTERVALS), _meanings(tree)]
    for run in tree.runs:
        parts += [_verdict(run), _figure(run), _table(run)]
    return parts


READING = (
    "A step is a whole training step (forward, backward, optimizer) on the slowest rank. An arm is one way of "
    "communicating in it. All arms compute each microbatch with the same matrix products; they differ only in "
    "when and how they call the collective library. A ratio compares steps that were taken in turn within one "
    "launch of the ranks; the figure is the median over launches. 2 means twice as fast, below 1 means slower. "
    "A call is one call of the collective library; a pass is all exchanges of a Case once, which may be many "
    "calls. Own local work is an arm's step with work on its own rank in place of every call. It contains the "
    "copies that the arm makes for its calls, so another arm's may be less. It was timed in one launch, so it "
    "has no interval."
)


def _card(run: Run) -> Card:
    chosen, developer, other = _chosen(run), run.arms.get(ArmName.DEVELOPER), run.best_other
    launches = count(run.launches, "launch", "launches")
    if chosen is None:
        return Card(
            title=run.name,
            figure=NOTHING,
            unit="its Cases deploy different arms" if run.deployed else "nothing was chosen yet",
            lines=(f"{count(len(run.arms), 'arm')} timed in {launches}",),
            tone="plain",
        )
    gain = chosen.speedup_over(other) if other is not None else None
    if other is None or gain is None:
        line = f"{arm_label(chosen.name)}: {spread(chosen.us)} a step, {launches}"
        return Card(
            title=run.name, figure=NOTHING, unit="no other arm was timed", lines=(line,), tone="plain"
        )
    lines = [standing(chosen, other, gain)]
    lines += _other_sizes(run, chosen)
    if chosen.name == ArmName.DEVELOPER:
        lines.append("nothing beats the baseline: developer's calls stay")
    elif developer is not None and other is not developer and run.twin_of(chosen.name) != ArmName.DEVELOPER:
        lines.append(f"over developer: {times(chosen.speedup_over(developer))}")
    if run.twin_of(chosen.name):
        lines.append(twin_words(run))
    lines.append(f"a step takes {ms(_us(chosen))}; {arm_label(other.name)}'s {ms(_us(other))}")
    lines.append(f"{launches}, 95% interval in brackets")
    return Card(
        title=run.name,
        figure=f"{gain.value:.2f}{TIMES}",
        unit=f"as fast as the best other arm, {arm_label(other.name)} ({gain.low:.2f} to {gain.high:.2f})",
        lines=tuple(lines),
        tone="good" if gain.low > 1 else "plain" if gain.value >= 1 else "warning",
    )


def standing(chosen: Arm, other: Arm, gain: Ratio) -> str:
    """In words: faster, slower, or within noise, and in how many launches."""
    slower, launches = chosen.slower_launches(other)
    all_of, name = count(launches, "launch", "launches"), arm_label(other.name)
    name = f"torch's own {name.removeprefix('torch ')}" if is_framework(other.name) else name
    if gain.low > 1:
        return f"faster than {name} in {launches - slower} of {all_of}"
    if gain.high < 1:
        return f"slower than {name} in {slower} of {all_of}"
    if slower == launches > 1:
        return f"slower than {name} in {slower} of {all_of}, though the interval holds 1"
    return f"within noise of {name} (the interval holds 1): slower in {slower} of {all_of}"


def _other_sizes(run: Run, chosen: Arm) -> list[str]:
    """The framework's own arms that are faster, beside the best other arm."""
    return [
        f"over {arm_label(arm.name)}: {times(ratio)}, {standing(chosen, arm, ratio)}"
        for arm in run.rivals
        if is_framework(arm.name) and arm is not run.best_other
        if (ratio := chosen.speedup_over(arm)) and ratio.value < 1
    ]


def twin_words(run: Run) -> str:
    """That the chosen arm runs the Programs of one that people write."""
    twin = run.twin_of(run.chosen)
    if run.chosen is None or twin is None:
        return ""
    ratio = run.arms[run.chosen].speedup_over(run.arms[twin])
    said = f"{arm_label(run.chosen)} runs the same Programs as {arm_label(twin)}: they differ by noise only"
    return said if ratio is None else f"{said}, {times(ratio)}"


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
        said = f"its Cases deploy different arms ({arms}), so no trained arm is what is deployed."
        return Text(text=head + said, tone="warning")
    if chosen is None:
        return Text(text=f"{head}nothing was chosen for it.", tone="missing")
    said = f"{arm_label(chosen.name)} is deployed"
    if chosen.name == ArmName.DEVELOPER:
        said = "nothing beats the baseline, so developer's own calls are deployed"
    gain = chosen.speedup_over(other) if other else None
    if gain is None or other is None:
        return Text(text=f"{head}{said}.", tone="good")
    said += f"; {times(gain)} as fast as the best other arm, {arm_label(other.name)}: "
    parts = [head + said + standing(chosen, other, gain), twin_words(run), _quicker_finalist(run, chosen)]
    parts += [*_other_sizes(run, chosen), _quicker_batch(run, chosen)]
    tone = "warning" if gain.value < 1 or chosen.name == ArmName.DEVELOPER else "good"
    return Text(text=". ".join(part for part in parts if part) + ".", tone=tone)


def _quicker_finalist(run: Run, chosen: Arm) -> str:
    """That the step would have liked another finalist better: the choice is the first that passes every gate."""
    others = [a for a in run.rivals if a.name in FINALISTS and a is not chosen and a.us is not None]
    quicker = [(ratio, arm) for arm in others if (ratio := chosen.speedup_over(arm)) and ratio.value < 1]
    if not quicker:
        return ""
    ratio, arm = min(quicker, key=lambda one: one[0].value)
    better, mine = arm_label(arm.name), arm_label(chosen.name)
    return (
        f"{better} had the shorter median step: {mine} is {times(ratio)} as fast, "
        f"{standing(chosen, arm, ratio)}. The first finalist in the bench's order that passes every gate is "
        "deployed"
    )


def _quicker_batch(run: Run, chosen: Arm) -> str:
    """That fewer, larger matrix products would have been faster, which no way to communicate can make."""
    batch = run.arms.get(ArmName.BIG_BATCH)
    ratio = batch.speedup_over(chosen) if batch is not None else None
    if ratio is None or ratio.value <= 1:
        return ""
    return (
        f"Big batch is {times(ratio)} as fast as what is deployed, but no rival: "
        "it computes all microbatches as one"
    )


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
            "ms": arm.quiet_us / 1e3,
            "text": f"{arm_label(arm.name)}, own local work: {ms(arm.quiet_us)}",
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
        "diamond: that arm's own local work (one launch, no interval).",
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
    chosen, twin = _chosen(run), run.twin_of(run.chosen)
    rows = []
    for arm in _arms(run):
        ratio = times(chosen.speedup_over(arm)) if chosen and arm is not chosen else NOTHING
        rows.append(
            (
                _row_name(run, arm) + (" (the same Program)" if arm.name == twin else ""),
                spread(arm.us),
                ratio,
                ms(arm.quiet_us),
                NOTHING if arm.collectives is None else str(arm.collectives),
                mebibytes(arm.peak_activation_bytes),
            )
        )
    return Table(
        title=f"{run.name}: every arm",
        headers=(
            "arm",
            "step time (95% interval)",
            "chosen is as fast (95% interval)",
            "own local work (one launch)",
            "library calls a step, each rank",
            "peak activations, a rank",
        ),
        rows=tuple(rows),
        numeric=frozenset(range(1, 6)),
        strong=frozenset(n for n, arm in enumerate(_arms(run)) if chosen and arm is chosen),
    )


def _arms(run: Run) -> list[Arm]:
    beside = [arm for arm in run.arms.values() if arm.name == ArmName.BIG_BATCH]
    return [*run.rivals, *beside]


def _row_name(run: Run, arm: Arm) -> str:
    mark = " (chosen)" if arm.name == run.chosen else "" if arm.rival else " (no rival)"
    return arm_label(arm.name) + mark


def _chosen(run: Run) -> Arm | None:
    return run.arms.get(run.chosen) if run.chosen else None


def _us(arm: Arm) -> float | None:
    return arm.us.value if arm.us else None
