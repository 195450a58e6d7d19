"""The folder of a timed launch: what the ranks are to do, and the stamps that they leave.

    plan.json          jobs, settings, launch number
    modules/*.py       emitted modules
    calibration.json   repeats and planned rounds, written by rank 0 whenever they change
    stamps.bin         int64[visits, jobs, ranks, 2]: start and end (ns of the launch's clock, `Rank.now_ns`) of
                       every sample

Rank 0 writes stamps as rounds go, so an interrupted launch keeps every round that all ranks had finished.
"""

import json
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

PLAN_FILE = "plan.json"
CALIBRATION_FILE = "calibration.json"
STAMPS_FILE = "stamps.bin"
MODULES = "modules"

Stamps = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPort:
    """A port as the ranks prepare it; within: the smallest and the largest value of ids, None for floats."""

    port: tuple[str | int, ...]
    elements: int
    dtype: str
    within: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One Program as the ranks see it: its module, the function to run, its groups and its inputs.

    deployed: the module is a deployed file, of whose `case` the function is.
    """

    key: str
    program: str
    module: str
    function: str
    case: str
    deployed: bool
    members: tuple[tuple[int, ...], ...]
    inputs: tuple[PlannedPort, ...]
    rounds: int | None
    races: tuple[str, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PlannedJob":
        """The job that `asdict` made plain."""
        inputs = tuple(
            PlannedPort(**{**p, "port": tuple(p["port"]), "within": p["within"] and tuple(p["within"])})
            for p in data["inputs"]
        )
        members = tuple(tuple(m) for m in data["members"])
        return cls(**{**data, "inputs": inputs, "members": members, "races": tuple(data["races"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """plan.json. started_ns: the launch's clock (`Rank.now_ns`) when its budget began."""

    launch: int
    ranks: int
    started_ns: int
    settings: TimingSettings
    jobs: tuple[PlannedJob, ...]

    @property
    def visits(self) -> int:
        """Most visits of one Program."""
        return self.settings.cold_rounds + self.settings.maximum_rounds

    def open_stamps(self, folder: Path, mode: str = "r+") -> Stamps:
        """The stamps, in the memory of whoever has them open on this host."""
        shape = (self.visits, len(self.jobs), self.ranks, 2)
        return np.memmap(folder / STAMPS_FILE, np.int64, mode, shape=shape)  # type: ignore[call-overload,no-any-return]

    def write(self, folder: Path, jobs: Sequence[Job]) -> None:
        """Make the folder's files; the stamps stand at 0. OSError where there is no room for them."""
        (folder / MODULES).mkdir(parents=True, exist_ok=True)
        for job, planned in zip(jobs, self.jobs, strict=True):
            (folder / planned.module).write_text(job.source)
        allocate(folder / STAMPS_FILE, 8 * 2 * self.visits * len(self.jobs) * self.ranks)
        write_text(folder / PLAN_FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "LaunchPlan":
        """The plan of a folder."""
        data = json.loads((folder / PLAN_FILE).read_text())
        jobs = tuple(PlannedJob.from_json(job) for job in data.pop("jobs"))
        return cls(**{**data, "settings": TimingSettings(**data["settings"]), "jobs": jobs})


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the calibration round led to: repeats and planned rounds of each job, the cold ones apart.

    first: what the first call of each took; empty: nobody looked.
    """

    repeats: tuple[int, ...]
    rounds: tuple[int, ...]
    first: tuple[FirstCall, ...] = ()

    def write(self, folder: Path) -> None:
        """Write calibration.json."""
        write_text(folder / CALIBRATION_FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "Calibration | None":
        """The calibration of a folder, None before there is one."""
        path = folder / CALIBRATION_FILE
        if not path.exists():
            return None
        data = json.loads(path.read_text())
        first = tuple(FirstCall(**one) for one in data["first"])
        return cls(repeats=tuple(data["repeats"]), rounds=tuple(data["rounds"]), first=first)


def finished_visits(stamps: Stamps, repeats: int) -> tuple[list[float], list[int]]:
    """(us of a call, slowest rank) of every visit that all ranks finished; stamps: [visits, ranks, 2] of a job."""
    unfinished = np.flatnonzero((stamps[:, :, 1] <= 0).any(axis=1))
    count = int(unfinished[0]) if len(unfinished) else len(stamps)
    each = [visit_us(visit, repeats) for visit in stamps[:count]]
    return [us for us, _ in each], [rank for _, rank in each]


def visit_us(stamps: NDArray[Any], repeats: int) -> tuple[float, int]:
    """(us of a call, slowest rank) of a visit; stamps: [ranks, 2], start and end in ns.

    It lasts from the instant at which the last rank began its timed calls to that at which the last rank ended
    them."""
    start, end = stamps[:, 0], stamps[:, 1]
    return float(end.max() - start.max()) / 1e3 / repeats, int(end.argmax())


def planned_job(index: int, job: Job) -> PlannedJob:
    """A Job as the ranks see it."""
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
        members=problem.case.members(),
        inputs=inputs,
        rounds=job.rounds,
        races=job.races,
    )
