"""Training steps by arm, in the launches that the choice is based on. Reads tables only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Ratio, paired_ratio

Launches = Mapping[tuple[int, int], tuple[float, ...]]
"""(seed, launch) -> us of the steps, in order."""


@dataclass(frozen=True, kw_only=True)
class TrainedArm:
    """One arm's timed steps at one count of microbatches. quiet: the same without communication."""

    name: str
    timed: Launches
    quiet: Launches
    collectives: int | None
    peak_memory_bytes: int | None

    @cached_property
    def us(self) -> Ratio | None:
        """A step: median over launches of the launch's median, with its interval."""
        sides: list[tuple[Sequence[float], Sequence[float]]] = [
            (us, [1.0] * len(us)) for us in self.timed.values() if us
        ]
        return paired_ratio(sides) if sides else None

    @cached_property
    def quiet_us(self) -> float | None:
        """us of the step without communication: the median of the first launch, without an interval."""
        first = min((key for key, us in self.quiet.items() if us), default=None)
        return None if first is None else float(np.median(self.quiet[first]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """All trained arms of a model at one count of microbatches, in their order."""

    model: str
    microbatches: int
    arms: Mapping[str, TrainedArm]
    launches: int

    @property
    def name(self) -> str:
        """Name for people: `nano, 8 microbatches`."""
        return f"{self.model}, {self.microbatches} microbatch{'es' if self.microbatches != 1 else ''}"


def runs_of(steps: pl.DataFrame) -> list[TrainingRun]:
    """Return the runs of one model's table `steps`, fewer microbatches first."""
    runs = []
    for microbatches in sorted(steps["microbatches"].unique()):
        here = pl.col("microbatches") == microbatches, pl.col("purpose") != Purpose.LOSS
        rows = steps.filter(*here, pl.col("status") == JobStatus.TRAINED)
        timed = rows.filter(pl.col("purpose") == Purpose.TIMED)
        if timed.is_empty():
            continue
        runs.append(
            TrainingRun(
                model=rows["model"][0],
                microbatches=microbatches,
                arms={name: _arm(name, rows) for name in timed["arm"].unique(maintain_order=True)},
                launches=timed.unique(["seed", "launch"]).height,
            )
        )
    return runs


def _arm(name: str, rows: pl.DataFrame) -> TrainedArm:
    mine = rows.filter(pl.col("arm") == name)
    timed = mine.filter(pl.col("purpose") == Purpose.TIMED)
    return TrainedArm(
        name=name,
        timed=_launches(timed.iter_rows(named=True)),
        quiet=_launches(mine.filter(pl.col("purpose") == Purpose.QUIET).iter_rows(named=True)),
        collectives=_first_known(timed["collectives"]),
        peak_memory_bytes=_first_known(timed["peak_memory_bytes"]),
    )


def _first_known(values: pl.Series) -> int | None:
    """Return the value of the one launch in which the arm was inspected."""
    return next(iter(values.drop_nulls()), None)


def _launches(rows: Iterable[Mapping[str, Any]]) -> Launches:
    return {(row["seed"], row["launch"]): tuple(row["steps_us"]) for row in rows}
