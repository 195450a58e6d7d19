"""A sentence on disturbed launches: other processes took too much of the CPU."""

from collections.abc import Iterator

import polars as pl

from overlayccl_core.backends.measured import FOREIGN_CPU_LIMIT
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS


def disturbed(tree: Tree) -> list[str]:
    """Return a sentence with the disturbed launches of each measurement, or none."""
    told = [
        f"{len(bad)} of {len(launches)} launch{'es' if len(launches) != 1 else ''} of {name}"
        for name, frame in _measured(tree)
        for bad, launches in [_launches(frame)]
        if bad
    ]
    if not told:
        return []
    return [
        f"Disturbed: others took over {FOREIGN_CPU_LIMIT:.0%} of the CPU in {', '.join(told)}. Rely on no gain "
        "where that is most launches: measure again on a quiet machine."
    ]


def _measured(tree: Tree) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield (name, rows with figures) of every measurement."""
    if (probes := tree.table(PROBES, "probes")) is not None:
        yield "the probes", probes
    for problem in tree.problems:
        if (bench := tree.table(BENCH, f"problems/{problem}/bench")) is not None:
            yield f"the bench of {problem}", bench.filter(pl.col("status") == JobStatus.TIMED)
    for model in tree.models:
        if (steps := tree.table(STEPS, f"train/{model}/steps")) is not None:
            trained = pl.col("status") == JobStatus.TRAINED
            yield f"the training of {model}", steps.filter(trained, pl.col("purpose") == Purpose.TIMED)
    for name, table in (("passes", CONFIRMED), ("steps", CONFIRMED_STEPS)):
        if (frame := tree.table(table, table.name)) is not None:
            yield f"the {name} that confirm the choice", frame


def _launches(frame: pl.DataFrame) -> tuple[set[int], set[int]]:
    """Return (disturbed launches, launches)."""
    return set(frame.filter("disturbed")["launch"]), set(frame["launch"])
