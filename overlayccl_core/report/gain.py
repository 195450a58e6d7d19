"""Where the gain comes from: from developer's step to the chosen one, one change at a time."""

from dataclasses import dataclass
from typing import Any

import altair as alt

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.arms import Arm, Run, arm_label
from overlayccl_core.report.blocks import Block, Text, missing, ms, times
from overlayccl_core.report.charts import Figure, Ink, figure, is_narrow, named
from overlayccl_core.report.headline import twin_words
from overlayccl_core.report.tree import Tree

STEPS_BY_HAND: dict[str, str] = {
    ArmName.SINGLE_GRAPH: "schedule",
    ArmName.HAND_BUNDLED: "merging calls",
}  # in the order of the way, and what is new
PRIMITIVE = "another primitive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One bar of the waterfall, in us: from where the step before left it. ratio: old over new, paired."""

    label: str
    from_us: float
    to_us: float
    ratio: Ratio | None
    whole: bool = False


def changes(run: Run) -> list[Change]:
    """developer, what each arm on the way changes, chosen; [] where developer or chosen was not trained.

    An arm that was not trained, or that is the chosen one itself or runs its Programs, is no step of its own.
    """
    developer = run.arms.get(ArmName.DEVELOPER)
    chosen = run.arms.get(run.chosen) if run.chosen else None
    if developer is None or chosen is None or developer.us is None or chosen.us is None:
        return []
    path: list[tuple[str, Arm]] = []
    itself = run.twin_of(chosen.name) or chosen.name
    if itself != ArmName.DEVELOPER:
        by_hand = list(STEPS_BY_HAND)
        on_the_way = by_hand[: by_hand.index(itself)] if itself in by_hand else by_hand
        trained = [name for name in on_the_way if name in run.arms and run.arms[name].us is not None]
        path = [(STEPS_BY_HAND[name], run.arms[name]) for name in trained]
        path.append((STEPS_BY_HAND.get(itself, PRIMITIVE), chosen))
    listed = [Change(label=ArmName.DEVELOPER, from_us=0, to_us=developer.us.value, ratio=None, whole=True)]
    before = developer
    for label, arm in path:
        assert before.us is not None and arm.us is not None  # held above
        listed.append(
            Change(label=label, from_us=before.us.value, to_us=arm.us.value, ratio=arm.speedup_over(before))
        )
        before = arm
    listed.append(Change(label="chosen", from_us=0, to_us=chosen.us.value, ratio=None, whole=True))
    return listed


def blocks(tree: Tree) -> list[Block]:
    """A waterfall for each run."""
    if not tree.runs:
        return [missing("No model was trained in this run, so there is no gain to take apart.", "")]
    parts: list[Block] = [Text(text=READING)]
    for run in tree.runs:
        steps = changes(run)
        if len(steps) > 2:
            parts.append(_figure(run, steps))
            if run.twin_of(run.chosen):
                parts.append(Text(text=f'{run.name}: no step "{PRIMITIVE}": {twin_words(run)}.'))
        elif steps:
            parts.append(
                Text(
                    text=f"{run.name}: developer's own calls are deployed; there is no gain.", tone="warning"
                )
            )
        else:
            parts.append(
                missing(
                    f"{run.name}:", "developer or the chosen arm was not timed, so there is no waterfall."
                )
            )
    return parts


QUIET = "developer's own local work (its step with work on its own rank in place of every call; one launch)"
READING = (
    "Each bar starts where the one before ended. Schedule: the same library calls without boundaries between "
    "them, in the order that lets independent ones overlap (arm single graph). Merging calls: calls that can be "
    "one become one, by hand (arm hand bundled). Another primitive: what the search put in place of the "
    "collectives themselves (the chosen arm). The ratio at a bar is the step before over the step after, paired "
    "within launches, with its 95% interval."
)


def _figure(run: Run, steps: list[Change]) -> Figure:
    order = [step.label for step in steps]
    quiet = run.arms[ArmName.DEVELOPER].quiet_us
    rows = [_row(step) for step in steps]
    floor = [{"start": quiet / 1e3, "text": QUIET}] if quiet is not None else []

    def build(width: int) -> Any:
        most = max(row["end"] for row in rows) * (1.8 if is_narrow(width) else 1.4)
        y = alt.Y(
            "change:N", title=None, sort=order, axis=alt.Axis(labelLimit=110 if is_narrow(width) else 220)
        )
        bars = alt.Chart(named("rows")).encode(y=y)
        drawn = bars.mark_bar(height=22).encode(
            x=alt.X("start:Q", title="step time, ms", scale=alt.Scale(domain=[0, most])),
            x2="end:Q",
            color=alt.Color(
                "effect:N",
                title=None,
                scale=alt.Scale(
                    domain=["whole step", "faster by", "slower by"],
                    range=[Ink.GREY.value, Ink.BLUE.value, Ink.ORANGE.value],
                ),
            ),
            description="text:N",
        )
        labels = bars.mark_text(align="left", dx=6, color=Ink.TEXT.value).encode(
            x="right:Q", text="short:N" if is_narrow(width) else "label:N"
        )
        line = (
            alt.Chart(named("floor"))
            .mark_rule(strokeDash=[4, 3], color=Ink.TEXT.value, strokeWidth=1.5)
            .encode(x="start:Q", description="text:N")
        )
        return alt.layer(drawn, labels, line).properties(height=alt.Step(38))

    return figure(
        f"{run.name}: from developer's step to {arm_label(run.chosen or '')}'s",
        f"Dashed: {QUIET}.",
        build,
        {"rows": rows, "floor": floor},
    )


def _row(step: Change) -> dict[str, Any]:
    change = step.to_us - step.from_us
    head = ms(step.to_us) if step.whole else f"{'+' if change > 0 else '-'}{ms(abs(change))}"
    label = head if step.ratio is None else f"{head}, {times(step.ratio)}"
    return {
        "change": step.label,
        "start": step.from_us / 1e3,
        "end": step.to_us / 1e3,
        "right": max(step.from_us, step.to_us) / 1e3,
        "effect": "whole step" if step.whole else "slower by" if change > 0 else "faster by",
        "label": label,
        "short": label.partition(" (")[0],
        "text": f"{step.label}: {label}",
    }
