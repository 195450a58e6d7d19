"""What a run deploys and what it is worth, in at most 100 columns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import RenderableType
from rich.table import Table

from overlayccl_core.cli.render import plain_table, times
from overlayccl_core.configuration.models import label
from overlayccl_core.measuring.arms import BASELINES, ArmName
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.arms import Run
from overlayccl_core.report.blocks import columns_ratio

Row = Mapping[str, Any]
Roles = Mapping[tuple[str, str, str], str]
"""(case, direction, candidate) -> role, of what people write and is deployed."""
CASE_WIDTH, NAME_WIDTH = 28, 22
LEGEND = (
    "x developer, x best other arm: how many times as fast, with 95% intervals (below 1: slower); in a training "
    "step where a model has the Case (of several the least; a step is of all of its sites together, so their rows "
    "share one ratio), else in the bench. The best other arm: of those that need no search (single_graph, "
    "hand_bundled, the framework's own), the one over which least is gained; one that is faster beyond noise comes "
    "before any that only may be. = ARM: this is that arm's own Program, so the two differ by noise only. "
    "disturbed: others took much of the CPU in most of the launches that the figures are of."
)


def deployed_parts(
    choices: Mapping[str, pl.DataFrame],
    summary: pl.DataFrame,
    runs: Sequence[Run] = (),
    disturbed: Collection[tuple[str, str]] = (),
) -> Iterator[RenderableType]:
    """A table for each Problem; which other arms are faster; why, where it is not the first finalist.

    summary: says which candidates are what people write. runs: of the models that were trained. disturbed: the
    (case, direction) whose figures are of launches that mostly were.
    """
    known = summary.filter(pl.col("chosen") & pl.col("role").is_in(BASELINES))
    roles = {(r["case"], r["direction"], r["candidate"]): r["role"] for r in known.iter_rows(named=True)}
    for problem, choice in choices.items():
        yield _table(problem, choice, roles, disturbed)
        for row in choice.iter_rows(named=True):
            yield from (f"{_place(row)}: {said}" for said in _slower(row, roles, runs))
        for row in choice.iter_rows(named=True):
            if row["arm"] != ArmName.FINALIST_1:
                yield f"{_place(row)}: {row['reason']}"
    yield LEGEND


def _place(row: Row) -> str:
    """`n4-m8-l8-32KiB-f32`, with the direction where it is not forward."""
    case = str(row["case"]).partition("/")[2]
    return case if row["direction"] == "forward" else f"{case} {row['direction']}"


def _itself(row: Row, roles: Roles) -> bool:
    """Whether the best other arm runs the very Program that is deployed."""
    role = roles.get((row["case"], row["direction"], row["candidate"]))
    return role is not None and role == str(row["best_other"])


def _slower(row: Row, roles: Roles, runs: Sequence[Run]) -> Iterator[str]:
    """Over which arms what is deployed loses: the best other, and all of the framework's that are beyond noise."""
    models = (row["trained_in"] or "").split(", ")
    faster = [
        (f"{name} was faster in {label(run.model, run.microbatches)}", ratio)
        for run in runs
        if label(run.model, run.microbatches) in models
        for name, ratio in run.faster_frameworks(row["arm"])
    ]
    gain = columns_ratio(row["step_gain"], row["step_gain_low"], row["step_gain_high"])
    said = f"{row['best_other']} was faster"
    known = any(other.startswith(f"{said} in ") for other, _ in faster) or _itself(row, roles)
    if gain is not None and gain.value < 1 and not known:
        faster.insert(0, (said, gain))
    for other, ratio in faster:
        yield f"{other}: what is deployed is {_times(ratio)} as fast, {_noise(ratio)}"


def _noise(slower: Ratio) -> str:
    """What the interval of a ratio below 1 says."""
    if not slower.not_slower:
        return "slower beyond noise"
    return "an interval that holds 1" if slower.high >= 1 else "an interval that ends within 2% of 1"


def _table(problem: str, choice: pl.DataFrame, roles: Roles, disturbed: Collection[tuple[str, str]]) -> Table:
    table = plain_table(f"{problem}: deployed")
    table.add_column("Case", max_width=CASE_WIDTH, overflow="fold")
    table.add_column("candidate", max_width=NAME_WIDTH, overflow="fold")
    table.add_column("in", no_wrap=True)
    for header in ("x developer", "x best other arm"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in choice.iter_rows(named=True):
        trained = row["step_speedup"] is not None
        other = "" if row["best_other"] is None else f"\n{row['best_other']}"
        if _itself(row, roles):
            other += ": itself"
        role = roles.get((row["case"], row["direction"], row["candidate"]))
        table.add_row(
            _place(row),
            row["candidate"] if role is None else f"{row['candidate']}\n= {role}",
            (f"step of\n{row['trained_in'] or 'a model'}" if trained else "bench")
            + ("\ndisturbed" if (row["case"], row["direction"]) in disturbed else ""),
            _ratio(row, "step_speedup" if trained else "speedup"),
            _ratio(row, "step_gain") + other,
        )
    return table


def _ratio(row: Row, name: str) -> str:
    return times(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _times(ratio: Ratio) -> str:
    return times(ratio.value, ratio.low, ratio.high)
