"""How near the times of a finished run come to the physical floor: `python -m benchmarks floor`."""

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.columns import line
from overlayccl_core.tables.summary import SUMMARY, Validity
from overlayccl_core.tables.table import read


def report(tree: Path = Path("results/local")) -> list[str]:
    """A line for each Problem of the tree, and one for all."""
    summary = read(SUMMARY, tree / "summary.parquet")
    timed = summary.filter(pl.col("measured_us").is_not_null() & pl.col("floor_us").is_not_null())
    lines = ["the physical floor over the measured time (above 1 with its whole interval: invalid)"]
    lines += [line("problem", "candidates", "median", "largest", "invalid")]
    lines += [_of(str(problem), rows) for (problem,), rows in timed.group_by("problem", maintain_order=True)]
    return [*lines, _of("all", timed)]


def _of(name: str, rows: pl.DataFrame) -> str:
    part = (rows["floor_us"] / rows["measured_us"]).to_numpy()
    invalid = rows.filter(pl.col("validity") == Validity.INVALID).height
    return line(name, str(rows.height), f"{np.median(part):.2f}", f"{np.max(part):.2f}", str(invalid))
