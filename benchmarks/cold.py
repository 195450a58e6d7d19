"""How many steps of an arm, and rounds of a Program, are cold, in a finished run: `python -m benchmarks cold`.

The first and the second step or round in a launch, over the median of those after them: COLD in training/worker.py
is from that, and no round of a Program is kept apart.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.columns import line
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from overlayccl_core.tables.table import read


def report(tree: Path = Path("results/local")) -> list[str]:
    """A line for all timed arms, and one for those of launches that nobody disturbed."""
    files = [(STEPS, path) for path in sorted(tree.glob("train/*/steps.parquet"))]
    files.append((CONFIRMED_STEPS, tree / "confirmed_steps.parquet"))
    steps = [
        row
        for table, path in files
        for row in read(table, path).filter(purpose=Purpose.TIMED).iter_rows(named=True)
    ]
    rounds = [
        row
        for path in sorted(tree.glob("problems/*/bench.parquet"))
        for row in read(BENCH, path).filter(status=JobStatus.TIMED).iter_rows(named=True)
    ]
    return [
        "the first and the second in a launch, over the median of the later ones",
        line("steps of launches", "arms", "first", "second"),
        *_of(steps, "cold_us", "steps_us"),
        line("rounds of benches", "Programs", "first", "second"),
        *_of(rounds, "samples_us"),
    ]


def _of(rows: Sequence[Mapping[str, Any]], *columns: str) -> list[str]:
    """Of undisturbed launches, and of all: rows with samples in these columns, in their order."""
    ratios: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for row in rows:
        first, second, *later = list(chain.from_iterable(row[name] for name in columns)) or [0.0, 0.0]
        if later:
            ratios[bool(row["disturbed"])].append((first / np.median(later), second / np.median(later)))
    return [_medians("undisturbed", ratios[False]), _medians("all", [*ratios[False], *ratios[True]])]


def _medians(name: str, ratios: list[tuple[float, float]]) -> str:
    if not ratios:
        return line(name, "0", "-", "-")
    first, second = np.median(ratios, axis=0)
    return line(name, str(len(ratios)), f"{first:.2f}", f"{second:.2f}")
