"""Overlap: what of the calls is hidden behind computing in each model's step, and whether more would pay."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from overlayccl_core.evidence.overlap import Apart, Overlap, median_us, overlap_of
from overlayccl_core.measuring.arms import arm_label
from overlayccl_core.report.blocks import Block, Text, ms, percent, table_of, times
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.steps import CONFIRMED_STEPS

READING = (
    "A step taken apart: its computing alone (the calls replaced by local work), its calls alone (the computing "
    "replaced by its results of a step before), both, and both waiting for each call where it starts, in turns in "
    "the launches after the choice. Hidden is the "
    "share of the calls' time that does not lengthen the step; at most as much as the computing is long. The step "
    "over the longer of its parts: no order of the same calls makes it shorter than 1."
)
COLUMNS: Mapping[str, Callable[[Apart], str]] = {
    "model": lambda one: one.model,
    "arm": lambda one: arm_label(one.arm),
    "M": lambda one: str(one.microbatches),
    "calls": lambda one: "overlapped" if one.overlaps else "waited",
    "step": lambda one: ms(median_us(one.step)),
    "waiting": lambda one: "-" if one.waited is None else ms(median_us(one.waited)),
    "computing alone": lambda one: ms(median_us(one.computing)),
    "calls alone": lambda one: ms(median_us(one.calls)),
    "hidden": lambda one: _shares(one),
    "at most": lambda one: percent(one.most_hidden),
    "step over longer part": lambda one: times(one.over_bound),
}
NUMERIC = frozenset({2, 4, 5, 6, 7, 8, 9, 10})


def overlaps_of(tree: Tree) -> list[Overlap]:
    """Return what overlap is worth, model by model."""
    steps = tree.table(CONFIRMED_STEPS, "confirmed_steps")
    if steps is None:
        return []
    found = (overlap_of(model, steps) for model in steps["model"].unique(maintain_order=True))
    return [one for one in found if one is not None]


@sourced
def blocks(tree: Tree) -> Iterator[Block]:
    """Yield the section's blocks; none where no step was taken apart."""
    found = overlaps_of(tree)
    if not found:
        return
    yield Text(text=READING)
    yield from (Text(text=f"{one.said}.") for one in found)
    yield table_of("Steps taken apart", arms_of(found), COLUMNS, numeric=NUMERIC)


def arms_of(found: Iterable[Overlap]) -> list[Apart]:
    """Return the arms of all models, those that wait before those that overlap."""
    return [one for of in found for one in (of.waited, of.overlapped) if one]


def _shares(one: Apart) -> str:
    hidden = one.hidden
    if hidden.low is None or hidden.high is None:
        return percent(hidden.value)
    return f"{percent(hidden.value)} ({percent(hidden.low)}..{percent(hidden.high)})"
