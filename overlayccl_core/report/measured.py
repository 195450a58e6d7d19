"""Measurements of a run: the rows with figures of its tables."""

import polars as pl

from overlayccl_core.measuring.job_status import MEASURED
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS


def frames(tree: Tree) -> dict[str, pl.DataFrame]:
    """Return measurement -> rows, without failures on the ranks."""
    named = {
        "probes of the cost model": tree.table(PROBES, "probes"),
        "bench of candidates, by which was chosen": tree.of_problems(BENCH),
        "training steps, by which was chosen": tree.of_models(STEPS),
        "passes that confirm the choice": tree.table(CONFIRMED, "confirmed"),
        "steps that confirm the choice": tree.table(CONFIRMED_STEPS, "confirmed_steps"),
    }
    return {
        name: ran
        for name, frame in named.items()
        if frame is not None and not (ran := _ran(frame)).is_empty()
    }


def _ran(frame: pl.DataFrame) -> pl.DataFrame:
    """Drop rows of failures on the ranks: they have no figures."""
    return frame.filter(pl.col("status").is_in(MEASURED)) if "status" in frame.columns else frame


def fingerprints_of(tree: Tree) -> list[str]:
    """Return the fingerprints of the measurements."""
    return sorted({one for frame in frames(tree).values() for one in frame["fingerprint"].unique()})
