"""Run Programs once on real ranks with given inputs and bring back what they write: checks, not timings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.plan import MODULES, PlannedJob, planned_job, write_text
from overlayccl_core.backends.torchdist.launch import Launch, launch
from overlayccl_core.program.nodes import Port

WORKER = "overlayccl_core.backends.torchdist.run_once_worker"
PLAN_FILE = "run_once.json"

Values = Mapping[Port, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A Program with its inputs: port -> float64[ranks of the deployment, elements]."""

    job: Job
    inputs: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came out: port -> float64[ranks, elements], or the error of the first rank that raised."""

    outputs: Values
    error: str = ""


def run_once(
    trials: Sequence[Trial], folder: Path, *, ranks: int, library: str, step_timeout_s: float = 60.0
) -> list[Observed]:
    """Run every trial on all ranks, in order, in one launch. A trial that raises does not end the others.

    LaunchError if ranks die or hang.
    """
    jobs = [trial.job for trial in trials]
    planned = [planned_job(index, job) for index, job in enumerate(jobs)]
    (folder / MODULES).mkdir(parents=True, exist_ok=True)
    for index, (trial, plan) in enumerate(zip(trials, planned, strict=True)):
        (folder / plan.module).write_text(trial.job.source)
        arrays: dict[str, Any] = {port_key(p): x for p, x in trial.inputs.items()}
        np.savez(folder / f"in-{index}.npz", **arrays)
    write_text(folder / PLAN_FILE, json.dumps({"library": library, "jobs": [asdict(p) for p in planned]}))
    names = tuple(job.key for job in jobs)
    launch(Launch(worker=WORKER, folder=folder, ranks=ranks, names=names, step_timeout_s=step_timeout_s))
    return [_observed(folder, index, job, ranks) for index, job in enumerate(jobs)]


def port_key(port: Port) -> str:
    """A port as the name of an array in a file."""
    return json.dumps(port)


def read_plan(folder: Path) -> tuple[str, list[PlannedJob]]:
    """(library, jobs) of a folder."""
    data: dict[str, Any] = json.loads((folder / PLAN_FILE).read_text())
    return data["library"], [PlannedJob.from_json(job) for job in data["jobs"]]


def _observed(folder: Path, index: int, job: Job, ranks: int) -> Observed:
    for rank in range(ranks):
        error = folder / f"out-{index}-{rank}.error"
        if error.exists():
            return Observed(outputs={}, error=f"rank {rank}: {error.read_text()}")
    files = [np.load(folder / f"out-{index}-{rank}.npz") for rank in range(ranks)]
    ports = job.program.problem.outputs
    return Observed(outputs={port: np.stack([f[port_key(port)] for f in files]) for port in ports})
