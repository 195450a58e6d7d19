"""Programs that run once on real ranks with given inputs: checks, not timings. The folder of such a launch.

trials.json           jobs, which inputs each has, and whether a job that raises is a refusal
modules/*.py          emitted modules
in-<k>.npz            inputs: port -> [ranks, elements]; trials that share theirs share the file
out-<i>-<r>.npz       what trial i wrote on rank r, or
out-<i>-<r>.error     what it raised there, or
out-<i>-<r>.overwritten  what it did there to values that it must leave as they are
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.plan import MODULES, PlannedJob, planned_job, write_text
from overlayccl_core.program.nodes import Port

PLAN_FILE = "trials.json"
KEPT = (np.float32, np.float64)  # in files as they are; narrower floats are widened, which changes nothing

Values = Mapping[Port, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """How large values are made of small ones: of every `block` elements so many copies, one behind the other."""

    number: int = 1
    block: int = 0


ONCE = Copies()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A Program with its inputs: port -> float[ranks of the deployment, elements].

    copies: what of them the ranks make their values; of what comes out they tell one copy, of several that are
    unlike one that is unlike the first.
    """

    job: Job
    inputs: Values
    copies: Copies = ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came out: port -> float[ranks, elements]; or `error`: what the first rank raised; or `overwritten`:
    which values were changed on the first rank that must be left as they are.

    outputs may be read from the launch's folder as they are asked for: ask while it is there.
    """

    outputs: Values
    error: str = ""
    overwritten: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial as the ranks see it."""

    job: PlannedJob
    inputs: str
    copies: Copies


def write_trials(folder: Path, trials: Sequence[Trial], *, may_refuse: bool) -> None:
    """Make the folder's files."""
    (folder / MODULES).mkdir(parents=True, exist_ok=True)
    files: dict[int, str] = {}
    planned = []
    for index, trial in enumerate(trials):
        job = planned_job(index, trial.job)
        (folder / job.module).write_text(trial.job.source)
        if id(trial.inputs) not in files:
            name = files[id(trial.inputs)] = f"in-{len(files)}.npz"
            arrays: dict[str, Any] = {port_key(p): _kept(x) for p, x in trial.inputs.items()}
            np.savez(folder / name, **arrays)
        planned.append(PlannedTrial(job=job, inputs=files[id(trial.inputs)], copies=trial.copies))
    plan = {"may_refuse": may_refuse, "trials": [asdict(one) for one in planned]}
    write_text(folder / PLAN_FILE, json.dumps(plan))


def read_trials(folder: Path) -> tuple[list[PlannedTrial], bool]:
    """(the trials of a folder, may_refuse)."""
    data: dict[str, Any] = json.loads((folder / PLAN_FILE).read_text())
    trials = [
        PlannedTrial(
            job=PlannedJob.from_json(one["job"]), inputs=one["inputs"], copies=Copies(**one["copies"])
        )
        for one in data["trials"]
    ]
    return trials, data["may_refuse"]


def write_seen(folder: Path, index: int, rank: int, outputs: Values) -> None:
    """Write what trial `index` gave on a rank: port -> float[elements]."""
    arrays: dict[str, Any] = {port_key(port): _kept(x) for port, x in outputs.items()}
    np.savez(folder / f"out-{index}-{rank}.npz", **arrays)


def write_error(folder: Path, index: int, rank: int, error: Exception) -> None:
    """Write what trial `index` raised on a rank."""
    (folder / f"out-{index}-{rank}.error").write_text(f"{type(error).__name__}: {error}")


def write_overwritten(folder: Path, index: int, rank: int, what: str) -> None:
    """Write which values trial `index` changed on a rank that it must leave as they are."""
    (folder / f"out-{index}-{rank}.overwritten").write_text(what)


def read_seen(folder: Path, trials: Sequence[Trial], ranks: int) -> list[Observed]:
    """What all trials of a folder gave."""
    last = _Last()
    return [_observed(folder, index, trial, ranks, last) for index, trial in enumerate(trials)]


def port_key(port: Port) -> str:
    """A port as the name of an array in a file."""
    return json.dumps(port)


def _kept(x: NDArray[Any]) -> NDArray[Any]:
    return x if x.dtype in KEPT else x.astype(np.float64)


def _observed(folder: Path, index: int, trial: Trial, ranks: int, last: "_Last") -> Observed:
    for rank in range(ranks):
        for field in ("error", "overwritten"):
            said = folder / f"out-{index}-{rank}.{field}"
            if said.exists():
                return Observed(outputs={}, **{field: f"rank {rank}: {said.read_text()}"})
    ports = tuple(trial.job.program.problem.outputs)
    files = tuple(folder / f"out-{index}-{rank}.npz" for rank in range(ranks))
    return Observed(outputs=_Outputs(files, ports, last))


class _Last:
    """What the ranks of one trial wrote, read at once; those of all trials together may be large."""

    def __init__(self) -> None:
        self._files: tuple[Path, ...] = ()
        self._of_ranks: list[dict[str, NDArray[Any]]] = []

    def of_ranks(self, files: tuple[Path, ...]) -> list[dict[str, NDArray[Any]]]:
        """What each file holds."""
        if files != self._files:
            self._files, self._of_ranks = (), []
            for file in files:
                with np.load(file) as arrays:
                    self._of_ranks.append(dict(arrays))
            self._files = files
        return self._of_ranks


class _Outputs(Mapping[Port, NDArray[Any]]):
    """Outputs of a trial, read when they are asked for."""

    def __init__(self, files: tuple[Path, ...], ports: Sequence[Port], last: _Last) -> None:
        self._files = files
        self._ports = ports
        self._last = last

    def __getitem__(self, port: Port) -> NDArray[Any]:
        if port not in self._ports:
            raise KeyError(port)
        return np.stack([arrays[port_key(port)] for arrays in self._last.of_ranks(self._files)])

    def __iter__(self) -> Iterator[Port]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)
