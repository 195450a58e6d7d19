"""Timed launches kept on disk as they come, so that an interrupted batch goes on where it stopped.

<folder>/launch-<k>.parquet   samples of a launch, finished or not (its own table, in no rule's output)
<folder>/launch-<k>/          a launch at work, or one that was cut off: turned into the above when found
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl

from overlayccl_core.backends.measured import Job, TimedProgram
from overlayccl_core.backends.plan import (
    PLAN_FILE,
    STAMPS_FILE,
    Calibration,
    LaunchPlan,
    finished_visits,
)
from overlayccl_core.launching.told import Told
from overlayccl_core.tables.table import Column, Table, read, write
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS

_OWN = ("program_json",)  # the jobs have it: a launch keeps samples only

LAUNCH = Table(
    name="launch",
    version=4,
    columns=(
        Column(name="key", dtype=pl.String(), doc="name of the Program in its batch"),
        *(c for c in TIMING_COLUMNS if c.name not in _OWN),
        Column(name="planned_rounds", dtype=pl.Int64(), doc="samples that there were to be"),
        Column(name="complete", dtype=pl.Boolean(), doc="the launch ended by itself"),
    ),
)


class LaunchStore:
    """The launches of one batch (one key) in one folder."""

    def __init__(self, folder: Path, *, fingerprint: str, oversubscribed: bool) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        self.oversubscribed = oversubscribed
        folder.mkdir(parents=True, exist_ok=True)

    def launches(self) -> list[list[TimedProgram]]:
        """What is kept, launch by launch."""
        paths = sorted(self.folder.glob("launch-*.parquet"), key=lambda path: _number(path))
        return [[_timed(row) for row in read(LAUNCH, path).iter_rows(named=True)] for path in paths]

    def recover(self) -> None:
        """Keep what launches that a dead run left had finished; their folders go."""
        for work in sorted(p for p in self.folder.glob("launch-*") if p.is_dir()):
            if not work.with_suffix(
                ".parquet"
            ).exists():  # else it was kept, and how disturbed it was is known
                self.harvest(work, foreign_cpu_share=None, complete=False)
            shutil.rmtree(work)

    def discard(self) -> None:
        """Forget launches that were cut off: what ran beside a Program that failed is timed anew."""
        for path in self.folder.glob("launch-*.parquet"):
            if not read(LAUNCH, path)["complete"].all():
                path.unlink()

    def next_launch(self) -> int:
        """A number that no launch has."""
        return max((_number(path) for path in self.folder.glob("launch-*")), default=-1) + 1

    def work_folder(self, launch: int) -> Path:
        """Where a launch works."""
        return self.folder / f"launch-{launch}"

    def harvest(
        self, work: Path, *, foreign_cpu_share: float | None, complete: bool, disturbed: bool = False
    ) -> None:
        """Turn a launch's stamps into its table, if it finished a round at all."""
        rows = [] if not _readable(work) else self._rows(work, foreign_cpu_share, complete, disturbed)
        if rows:
            write(LAUNCH, rows, work.with_suffix(".parquet"))

    def _rows(
        self, work: Path, foreign_cpu_share: float | None, complete: bool, disturbed: bool
    ) -> list[dict[str, object]]:
        plan, calibration = LaunchPlan.read(work), Calibration.read(work)
        if calibration is None:
            return []
        stamps = np.array(plan.open_stamps(work, "r"))
        cold, told = plan.settings.cold_rounds, Told.read(work)
        rows: list[dict[str, object]] = []
        for index, job in enumerate(plan.jobs):
            repeats = calibration.repeats[index]
            times, ranks = finished_visits(stamps[:, index], repeats)
            if len(times) <= cold:
                continue
            first = asdict(calibration.first[index]) if calibration.first else {}
            rows.append(
                {
                    "key": job.key,
                    "program": job.program,
                    "launch": plan.launch,
                    "first_call_us": first.get("us"),
                    "compile_us": first.get("compile_us"),
                    "graphs": first.get("graphs"),
                    "repeats": repeats,
                    "cold_us": times[:cold],
                    "samples_us": times[cold:],
                    "slowest_rank": ranks[cold:],
                    "rounds": len(times) - cold,
                    "oversubscribed": self.oversubscribed,
                    "foreign_cpu_share": foreign_cpu_share,
                    "disturbed": disturbed,
                    **told.columns,
                    "fingerprint": self.fingerprint,
                    "planned_rounds": calibration.rounds[index],
                    "complete": complete,
                }
            )
        return rows


def missing(jobs: Sequence[Job], launches: Sequence[Sequence[TimedProgram]]) -> dict[str, int | None]:
    """key -> rounds that are still to be taken (None: as many as the budget gives); empty when all is there.

    A launch that ended by itself is all there is to be had. After cut-off ones the first one's plan counts.
    """
    if any(timed.complete for launch in launches for timed in launch):
        return {}
    planned: dict[str, int] = {}
    taken: dict[str, int] = {}
    for launch in launches:
        for timed in launch:
            planned.setdefault(timed.key, timed.planned_rounds)
            taken[timed.key] = taken.get(timed.key, 0) + timed.rounds
    rounds_left: dict[str, int | None] = {}
    for job in jobs:
        if job.key not in planned:
            rounds_left[job.key] = job.rounds
        elif (left := planned[job.key] - taken[job.key]) > 0:
            rounds_left[job.key] = max(left, 2)  # one round alone has no repeat
    racing = [job.key for job in jobs if job.races and rounds_left.get(job.key)]
    most = max((rounds_left[key] or 0 for key in racing), default=0)
    return rounds_left | dict.fromkeys(racing, most)  # who races is compared in the same rounds


def _readable(work: Path) -> bool:
    """False for a folder whose preparation was cut off."""
    return (work / PLAN_FILE).exists() and (work / STAMPS_FILE).exists()


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("launch-"))


def _timed(row: dict[str, object]) -> TimedProgram:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k != "rounds"}
    return TimedProgram(**fields)  # type: ignore[arg-type]
