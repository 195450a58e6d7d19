"""How many steps of an arm are cold, in a finished run: `python -m benchmarks cold`.

Its first and its second step in a launch, over the median of those after them: COLD in training/worker.py is from
that.
"""

from pathlib import Path

import numpy as np

from benchmarks.columns import line
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from overlayccl_core.tables.table import read


def report(tree: Path = Path("results/local")) -> list[str]:
    """A line for all timed arms, and one for those of launches that nobody disturbed."""
    files = [(STEPS, path) for path in sorted(tree.glob("train/*/steps.parquet"))]
    files.append((CONFIRMED_STEPS, tree / "confirmed_steps.parquet"))
    ratios: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for table, path in files:
        for row in read(table, path).filter(purpose=Purpose.TIMED).iter_rows(named=True):
            first, second, *later = [*row["cold_us"], *row["steps_us"]] or [0.0, 0.0]
            if later:
                ratios[bool(row["disturbed"])].append((first / np.median(later), second / np.median(later)))
    return [
        "the first and the second step of an arm in a launch, over the median of its later ones",
        line("launches", "arms", "first", "second"),
        _of("undisturbed", ratios[False]),
        _of("all", [*ratios[False], *ratios[True]]),
    ]


def _of(name: str, ratios: list[tuple[float, float]]) -> str:
    if not ratios:
        return line(name, "0", "-", "-")
    first, second = np.median(ratios, axis=0)
    return line(name, str(len(ratios)), f"{first:.2f}", f"{second:.2f}")
