"""The page of the target `sweep_m`: which number of microbatches M is the best, and what each arm gains there."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.measuring.arms import ArmName, arm_label, is_framework
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import (
    Block,
    Figure,
    PageSection,
    TableBlock,
    Text,
    columns_ratio,
    count,
    mebibytes,
    page_sources,
    spread,
    table_of,
    times,
    with_sources,
    worded,
)
from overlayccl_core.report.by_size import DASHES, Look, SizeAxis, SizePoint, lines
from overlayccl_core.report.charts import Ink
from overlayccl_core.report.rendering import page_of
from overlayccl_core.report.training import INKS
from overlayccl_core.tables.sweep_m import SWEPT_SPLITS

LEAD = "The same batch, split into M microbatches: which M has the fastest step, and what does each arm gain there?"
ACROSS = SizeAxis(title="microbatches M", name=str)
SAME = Ratio(value=1.0, low=1.0, high=1.0)
Row = Mapping[str, Any]


def page(splits: pl.DataFrame, name: str) -> str:
    """Return the HTML. splits: the table `swept_splits`; name: of the run."""
    section = PageSection(
        anchor="microbatches",
        title="Steps by the number of microbatches",
        blocks=with_sources(page_sources(SWEPT_SPLITS), _blocks(splits)),
    )
    about = f"{count(splits['model'].n_unique(), 'model')}, {count(splits.height, 'arm')}."
    return page_of(name, about, LEAD, section)


def sentence(splits: pl.DataFrame) -> str:
    """Say which M is the best of a model by the odd steps, over what, and whether the gain grows with M."""
    model = splits["model"][0]
    if splits["disturbed"].any():
        return (
            f"{model}: others took too much of the CPU while it was trained, so nothing is said of it. Train it "
            "again on a quiet machine: --forcerun train_splits."
        )
    best = splits.filter("best").row(0, named=True)
    us = spread(Ratio(value=best["step_us"], low=best["low_us"], high=best["high_us"]))
    which = f"{arm_label(best['arm'])} at M = {best['microbatches']}"
    head = f"{model}: by the odd steps the fastest is {which}; by the even ones {us}"
    said = [f"{times(ratio)} as fast as {words} ({ratio.word})" for ratio, words in _over(best, splits)]
    return f"{head}{': ' if said else ''}{'; '.join(said)}. {curve(splits)}"


def _over(best: Row, splits: pl.DataFrame) -> Iterator[tuple[Ratio, str]]:
    """Yield the ratios of the best, and over what."""
    m = best["microbatches"]
    if m > 1 and (whole := columns_ratio(best, "over_whole")):
        yield whole, "developer's step that is not split at all (M = 1)"
    if gain := columns_ratio(best, "gain"):
        yield gain, f"developer's at {'the same M' if m > 1 else 'M = 1, not split at all'}"
    rival = splits.filter("rival").row(0, named=True)
    if (over := columns_ratio(best, "over_rival")) and rival["arm"] != ArmName.DEVELOPER:
        yield (
            over,
            f"the best that needs no search ({arm_label(rival['arm'])} at M = {rival['microbatches']})",
        )


def curve(splits: pl.DataFrame) -> str:
    """Say whether what was found gains more over developer, at the same M, the larger M is."""
    found = splits.filter(pl.col("arm") == ArmName.FINALIST_1).sort("microbatches")
    gains = [(row["microbatches"], columns_ratio(row, "gain") or SAME) for row in found.iter_rows(named=True)]
    if len(gains) < 2 or any(gain.low is None for _, gain in gains):
        return (
            "Too few M, or too few steps, to say whether the gain over developer at the same M grows with M."
        )
    (least, first), (most, last) = gains[0], gains[-1]
    ends = f"{times(first)} at M = {least}, {times(last)} at M = {most}"
    if not _above(last, first):
        return (
            f"The gain over developer at the same M does not grow with M beyond noise ({ends}): the published "
            "shape of the curve does not appear."
        )
    falls = [(a, b) for (a, before), (b, after) in pairwise(gains) if _above(before, after)]
    but = "".join(f", but falls from M = {a} to {b}" for a, b in falls[:1])
    return f"The gain over developer at the same M grows with M, as published{but} ({ends})."


def _above(one: Ratio, other: Ratio) -> bool:
    """Return whether the interval of a ratio lies above another's."""
    return one.low is not None and other.high is not None and one.low > other.high


def _blocks(splits: pl.DataFrame) -> Iterator[Block]:
    yield Text(
        text=(
            "Every arm at every M computes the same batch and the same gradients. A larger M makes more and "
            "smaller calls. Developer's step then needs less memory; arms that join calls of several "
            "microbatches, or have them in flight together, keep the activations of all of them. The published "
            "sweep compares arms at the same M; a step that is not split at all (M = 1) is a rival, too, where "
            "memory allows. Of what a search found, the arm is the fastest in the bench, so no step chose it. "
            "Odd steps choose which M is the best, even ones say how long it takes."
        )
    )
    for (_,), of_model in splits.group_by("model", maintain_order=True):
        yield Text(text=sentence(of_model))
        yield from _of_model(of_model)


def _of_model(splits: pl.DataFrame) -> Iterator[Block]:
    model = splits["model"][0]
    looks = _looks(splits["arm"].unique(maintain_order=True).to_list())
    rows = list(splits.iter_rows(named=True))
    yield lines(
        f"{model}: step time by M",
        "The same batch at every M. Of arms with the same Programs the lines lie on each other.",
        [
            _point(row, Ratio(value=row["step_us"], low=row["low_us"], high=row["high_us"]), 1e3)
            for row in rows
        ],
        looks,
        ACROSS,
        "step, ms",
    )
    for column, title, caption in (
        ("gain", "over developer at the same M", "What the published sweep shows."),
        ("over_whole", "over developer's step at M = 1", "Below 1: not splitting at all is faster."),
    ):
        if drawn := _ratios(model, rows, looks, column, title, caption):
            yield drawn
    if known := [row for row in rows if row["peak_memory_bytes"]]:
        yield lines(
            f"{model}: peak memory of a rank by M",
            "Most bytes of tensors in a step, all but the optimizer's.",
            [_point(row, Ratio(value=row["peak_memory_bytes"]), MIB) for row in known],
            looks,
            ACROSS,
            "MiB",
        )
    yield _table(model, rows)


def _looks(arms: Sequence[str]) -> dict[str, Look]:
    """Return the look of each arm by its label."""
    dashes = {arm: DASHES[number % len(DASHES)] for number, arm in enumerate(arms)}
    return {arm_label(arm): (INKS.get(arm, Ink.GREY), dashes[arm]) for arm in arms}


def _ratios(
    model: str, rows: Sequence[Row], looks: Mapping[str, Look], column: str, title: str, caption: str
) -> Figure | None:
    """Draw a ratio; an arm over itself is 1. None if nothing has it."""
    if all(row[column] is None for row in rows):
        return None
    points = [
        _point(row, columns_ratio(row, column) or SAME)
        for row in rows
        if row["arm"] != ArmName.DEVELOPER or column != "gain"
    ]
    return lines(
        f"{model}: times as fast, {title}", caption, points, looks, ACROSS, "times as fast", level=1.0
    )


def _point(row: Row, value: Ratio, unit: float = 1.0) -> SizePoint:
    name = arm_label(row["arm"])
    return SizePoint(
        line=name,
        size=row["microbatches"],
        value=value.value / unit,
        low=None if value.low is None else value.low / unit,
        high=None if value.high is None else value.high / unit,
        text=f"{name}, M = {row['microbatches']}: {value.value / unit:.3g}",
    )


def _table(model: str, rows: Sequence[Row]) -> TableBlock:
    return table_of(
        f"{model}: every arm at every M, by its even steps",
        rows,
        {
            "M": lambda row: str(row["microbatches"]),
            "arm": lambda row: arm_label(row["arm"]),
            "the same Programs as": lambda row: (
                "" if row["ran_as"] == row["arm"] else arm_label(row["ran_as"])
            ),
            "from": lambda row: "a search" if row["needs_search"] else _people(row["arm"]),
            "step": lambda row: spread(Ratio(value=row["step_us"], low=row["low_us"], high=row["high_us"])),
            "over developer, same M": lambda row: worded(columns_ratio(row, "gain")),
            "over developer, M = 1": lambda row: worded(columns_ratio(row, "over_whole")),
            "peak memory": lambda row: mebibytes(row["peak_memory_bytes"]),
        },
        numeric=frozenset({0, 4, 5, 6, 7}),
        folded=True,
    )


def _people(arm: str) -> str:
    return "the framework" if is_framework(arm) else "people"
