"""Which figures stand on launches in which others took too much of the CPU, for the page and the end of a run."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from overlayccl_core.backends.measured import FOREIGN_CPU_LIMIT
from overlayccl_core.configuration.models import label
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.measurements import mostly
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import STEPS

Place = tuple[str, str]
"""(case, direction)."""


def disturbed(tree: Tree) -> list[str]:
    """A sentence on the launches that were disturbed; none where nobody disturbed any."""
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


def on_disturbed(tree: Tree) -> frozenset[Place]:
    """Where the figures of what is deployed are of launches most of which were disturbed."""
    if tree.choice is None:
        return frozenset()
    bench = tree.of_problems(BENCH)
    bad_runs = {label(run.model, run.microbatches) for run in tree.runs if run.mostly_disturbed}
    return frozenset(
        (row["case"], row["direction"])
        for row in tree.choice.iter_rows(named=True)
        if _stands_on(row, bench, bad_runs)
    )


def _stands_on(row: Mapping[str, Any], bench: pl.DataFrame | None, bad_runs: set[str]) -> bool:
    """Whether a row of the choice is of such launches: those of its models, else those of the bench."""
    if row["step_speedup"] is not None:
        return not bad_runs.isdisjoint((row["trained_in"] or "").split(", "))
    if bench is None:
        return False
    mine = [pl.col(name) == row[name] for name in ("case", "direction", "program")]
    return mostly(*_launches(bench.filter(*mine, pl.col("status") == JobStatus.TIMED)))


def _measured(tree: Tree) -> Iterator[tuple[str, pl.DataFrame]]:
    """(name, rows with figures) of every measurement."""
    if (probes := tree.table(PROBES, "probes")) is not None:
        yield "the probes", probes
    for problem in tree.problems:
        if (bench := tree.table(BENCH, f"problems/{problem}/bench")) is not None:
            yield f"the bench of {problem}", bench.filter(pl.col("status") == JobStatus.TIMED)
    for model in tree.models:
        if (steps := tree.table(STEPS, f"train/{model}/steps")) is not None:
            trained = pl.col("status") == JobStatus.TRAINED
            yield f"the training of {model}", steps.filter(trained, pl.col("purpose") == Purpose.TIMED)


def _launches(frame: pl.DataFrame) -> tuple[set[int], set[int]]:
    """(disturbed launches, launches)."""
    return set(frame.filter("disturbed")["launch"]), set(frame["launch"])
