"""The folder of a timed launch: the plan for the ranks, and their stamps.

    plan.json          jobs, settings, launch number
    modules/*.py       emitted modules
    calibration.json   repeats and planned rounds, written by rank 0 whenever they change
    stamps.bin         int64[visits, jobs, ranks, 2]: start and end (ns of the launch's clock, `Rank.now_ns`) of
                       every sample

Rank 0 writes stamps as rounds go, so an interrupted launch keeps every round finished by all ranks.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.measured import FirstCall, Job, TimingSettings
from overlayccl_core.disk import allocate
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.tables.plain import rebuilt

PLAN_FILE = "plan.json"
CALIBRATION_FILE = "calibration.json"
STAMPS_FILE = "stamps.bin"
MODULES = "modules"

Stamps = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPort:
    """A port as the ranks prepare it. within: smallest and largest value of ids, None for floats."""

    port: tuple[str | int, ...]
    elements: int
    dtype: str
    within: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One Program as the ranks see it: module, function, groups and inputs.

    deployed: the module is a deployed file; the function is of its `case` and `way`.
    """

    key: str
    program: str
    module: str
    function: str
    case: str
    deployed: bool
    way: str
    beside: bool
    members: tuple[tuple[int, ...], ...]
    inputs: tuple[PlannedPort, ...]
    rounds: int | None
    races: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The content of plan.json. started_ns: the launch's clock (`Rank.now_ns`) at the start of its budget."""

    launch: int
    ranks: int
    started_ns: int
    settings: TimingSettings
    jobs: tuple[PlannedJob, ...]

    @classmethod
    def of(
        cls, jobs: Sequence[Job], settings: TimingSettings, *, ranks: int, launch: int = 0
    ) -> "LaunchPlan":
        """Plan a launch whose budget begins now."""
        planned = tuple(planned_job(index, job) for index, job in enumerate(jobs))
        started_ns = time.monotonic_ns()
        return cls(launch=launch, ranks=ranks, started_ns=started_ns, settings=settings, jobs=planned)

    def open_stamps(self, folder: Path, mode: str = "r+") -> Stamps:
        """Map the stamps into memory; all openers on this host share it."""
        shape = (self.settings.maximum_rounds, len(self.jobs), self.ranks, 2)
        return np.memmap(folder / STAMPS_FILE, np.int64, mode, shape=shape)  # type: ignore[call-overload,no-any-return]

    def write(self, folder: Path, jobs: Sequence[Job]) -> None:
        """Write the folder's files, with stamps of 0. OSError: the disk has no room for them."""
        (folder / MODULES).mkdir(parents=True, exist_ok=True)
        for job, planned in zip(jobs, self.jobs, strict=True):
            (folder / planned.module).write_text(job.source)
        visits = self.settings.maximum_rounds * len(self.jobs)
        allocate(folder / STAMPS_FILE, 8 * 2 * visits * self.ranks)
        write_text(folder / PLAN_FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "LaunchPlan":
        return rebuilt(cls, (folder / PLAN_FILE).read_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The result of the calibration round: repeats and planned rounds of each job.

    first: each job's first call; empty if not measured.
    """

    repeats: tuple[int, ...]
    rounds: tuple[int, ...]
    first: tuple[FirstCall, ...] = ()

    def write(self, folder: Path) -> None:
        write_text(folder / CALIBRATION_FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "Calibration | None":
        """Return the calibration of a folder, None before it is written."""
        path = folder / CALIBRATION_FILE
        return rebuilt(cls, path.read_bytes()) if path.exists() else None


def finished_visits(stamps: Stamps, repeats: int) -> tuple[list[float], list[int]]:
    """Return (us of a call, slowest rank) of a job's visits finished by all ranks. stamps: [visits, ranks, 2]."""
    unfinished = np.flatnonzero((stamps[:, :, 1] <= 0).any(axis=1))
    count = int(unfinished[0]) if len(unfinished) else len(stamps)
    each = [visit_us(visit, repeats) for visit in stamps[:count]]
    return [us for us, _ in each], [rank for _, rank in each]


def visit_us(stamps: NDArray[Any], repeats: int) -> tuple[float, int]:
    """Return (us of a call, slowest rank) of a visit. stamps: [ranks, 2], start and end in ns.

    It lasts from the last rank's start of its timed calls to the last rank's end.
    """
    start, end = stamps[:, 0], stamps[:, 1]
    return float(end.max() - start.max()) / 1e3 / repeats, int(end.argmax())


def planned_job(index: int, job: Job) -> PlannedJob:
    problem = job.program.problem
    inputs = tuple(
        PlannedPort(
            port=port,
            elements=spec.size,
            dtype=spec.dtype.value,
            within=spec.within if spec.dtype is DType.INT64 else None,
        )
        for port, spec in problem.inputs.items()
    )
    return PlannedJob(
        key=job.key,
        program=job.program.digest,
        module=f"{MODULES}/program_{index}.py",
        function=Direction(problem.direction).value,
        case=problem.case.id,
        deployed=job.deployed,
        way=job.way,
        beside=job.beside,
        members=problem.case.members(),
        inputs=inputs,
        rounds=job.rounds,
        races=job.races,
    )
