"""Waterfall of the gain: from developer's step to the deployed one, one change at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import altair as alt

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import Block, Figure, Text, count, missing, ms, times
from overlayccl_core.report.charts import Ink, by_look, figure, is_narrow, named
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.report.worth import Worth

BY_HAND: dict[str, str] = {
    ArmName.SINGLE_GRAPH: "schedule",
    ArmName.HAND_BUNDLED: "merging calls",
    ArmName.BEST_KNOWN_WAY: "another strategy",
}  # in the order of the waterfall, with the change of each
SEARCH = "search"
EFFECTS = {"whole step": Ink.GREY.value, "faster by": Ink.BLUE.value, "slower by": Ink.ORANGE.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One bar of the waterfall, in us, from where the last one ended. speedup: the deployed arm's over this one."""

    label: str
    from_us: float
    to_us: float
    speedup: Ratio | None = None
    whole: bool = False


def changes(worth: Worth) -> list[Change]:
    """Return the changes: developer at its fastest, another M, each arm by hand, the deployed arm.

    Empty if developer or the deployed arm was not timed. A missing arm, or one with a plainer arm's Programs, is no
    step. The way by hand ends at the arm with the deployed Programs.
    """
    mine, developer = worth.deployed, worth.developer
    if mine is None or developer is None:
        return []
    labels = {ArmName.DEVELOPER: f"M = {mine.microbatches}", **BY_HAND}
    on_the_way = (
        list(labels)[: list(labels).index(mine.ran_as) + 1] if mine.ran_as in labels else list(labels)
    )
    here = (worth.split_at(mine.microbatches, arm) for arm in on_the_way)
    path = [(labels[one.arm], one) for one in here if one and one.ran_as == one.arm and one is not developer]
    if mine.ran_as not in labels:
        path.append((SEARCH, mine))
    elif path:
        path[-1] = (path[-1][0], mine)
    listed = [
        Change(
            label="developer",
            from_us=0,
            to_us=developer.step_us,
            speedup=developer.deployed_speedup,
            whole=True,
        )
    ]
    for label, one in path:
        listed.append(Change(label=label, from_us=listed[-1].to_us, to_us=one.step_us))
    return [*listed, Change(label="deployed", from_us=0, to_us=mine.step_us, whole=True)]


def blocks(tree: Tree) -> list[Block]:
    """Return a waterfall for each model."""
    if not tree.worths:
        return [missing("No model was timed after the choice, so there is no gain to take apart.", "")]
    return [Text(text=READING), *_waterfalls(tree)]


@sourced
def _waterfalls(tree: Tree) -> Iterator[Block]:
    for worth in tree.worths:
        steps = changes(worth)
        if len(steps) > 2:
            yield _figure(worth, steps)
        elif steps:
            said = f"{worth.model}: developer's own calls are deployed, where they are fastest; there is no gain."
            yield Text(text=said, tone="warning")
        else:
            said = "developer or what is deployed was not timed in its steps, so there is no waterfall."
            yield missing(f"{worth.model}:", said)


READING = (
    "Each bar starts where the one before ended. It begins with developer's calls at the count of "
    "microbatches at which they alone are fastest. M: the same calls at the count that is deployed. "
    "Schedule: the same library calls without boundaries between them, in the order that lets independent "
    "ones overlap (arm single graph). Merging calls: calls that can be one become one, by hand (arm hand "
    "bundled). Another strategy: the fastest that people wrote (arm best known way). Search: what only the search "
    "found. The ratio is of developer's step over that of what is deployed."
)


def _figure(worth: Worth, steps: list[Change]) -> Figure:
    order = [step.label for step in steps]
    rows = [_row(step) for step in steps]

    def build(width: int) -> Any:
        most = max(row["end"] for row in rows) * (1.8 if is_narrow(width) else 1.4)
        y = alt.Y(
            "change:N", title=None, sort=order, axis=alt.Axis(labelLimit=110 if is_narrow(width) else 220)
        )
        bars = alt.Chart(named("rows")).encode(y=y)
        drawn = bars.mark_bar(height=22).encode(
            x=alt.X("start:Q", title="step time, ms", scale=alt.Scale(domain=[0, most])),
            x2="end:Q",
            color=by_look(alt.Color, "effect", EFFECTS),
            description="text:N",
        )
        labels = bars.mark_text(align="left", dx=6, color=Ink.TEXT.value).encode(
            x="right:Q", text="short:N" if is_narrow(width) else "label:N"
        )
        return alt.layer(drawn, labels).properties(height=alt.Step(38))

    developer = worth.developer
    assert developer is not None and worth.deployed is not None  # else there are no changes
    return figure(
        f"{worth.model}: from developer's step at M = {developer.microbatches} to what is deployed",
        f"Medians over {count(worth.launches, 'launch', 'launches')} that chose nothing; differences have no "
        "interval.",
        build,
        {"rows": rows},
    )


def _row(step: Change) -> dict[str, Any]:
    change = step.to_us - step.from_us
    head = ms(step.to_us) if step.whole else f"{'+' if change > 0 else '-'}{ms(abs(change))}"
    label = head if step.speedup is None else f"{head}, {times(step.speedup)}"
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
