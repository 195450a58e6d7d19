"""The folder of a launch that runs Programs once on real ranks with given inputs: checks, not timings.

trials.json           jobs, the inputs of each, and whether an exception in a job is a refusal
modules/*.py          emitted modules
in-<k>.npz            inputs: port -> [ranks, elements]; trials with the same inputs share the file
out-<i>-<r>.npz       outputs of trial i on rank r, with a digest of the bits of partly reported ones, or
out-<i>-<r>.error     its exception there, or
out-<i>-<r>.overwritten  its change of protected values there
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.plan import MODULES, PlannedJob, planned_job
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.tiles import Tiles, bits
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.tables.plain import rebuilt

PLAN_FILE = "trials.json"
KEPT = (np.float32, np.float64)  # unchanged in files; narrower floats are widened without loss

FARTHEST, BITS = "farthest:", "bits:"  # prefixes of a port's name

Values = Mapping[Port, NDArray[Any]]
Bits = Mapping[Port, Sequence[int] | NDArray[Any]]
TilesOf = Mapping[Port, Tiles]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A Program with its inputs: port -> float[ranks of the deployment, elements].

    input_tiles: how ranks make large inputs from these. output_tiles: how they report large outputs.
    """

    job: Job
    inputs: Values
    input_tiles: TilesOf = field(default_factory=dict)
    output_tiles: TilesOf = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The outcome of a trial, port -> float[ranks, elements], or an error.

    Outputs may be read from the launch's folder on access: read them while it exists.

    Attributes:
        outputs: With tiles, the first copy.
        farthest: With tiles, the copy farthest from the first.
        bits: With tiles, a digest of all copies, for each rank.
        error: The exception of the first rank that raised.
        overwritten: The protected values changed on the first rank that changed any.
    """

    outputs: Values
    farthest: Values = field(default_factory=dict)
    bits: Bits = field(default_factory=dict)
    error: str = ""
    overwritten: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial as the ranks see it. Tiles are by `port_key`."""

    job: PlannedJob
    inputs: str
    input_tiles: dict[str, Tiles]
    output_tiles: dict[str, Tiles]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrials:
    """The content of trials.json. may_refuse: an exception in a trial is a refusal."""

    may_refuse: bool
    trials: tuple[PlannedTrial, ...]

    @classmethod
    def read(cls, folder: Path) -> "PlannedTrials":
        return rebuilt(cls, (folder / PLAN_FILE).read_bytes())


def write_trials(folder: Path, trials: Sequence[Trial], *, may_refuse: bool) -> None:
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
        planned.append(
            PlannedTrial(
                job=job,
                inputs=files[id(trial.inputs)],
                input_tiles=_by_key(trial.input_tiles),
                output_tiles=_by_key(trial.output_tiles),
            )
        )
    whole = PlannedTrials(may_refuse=may_refuse, trials=tuple(planned))
    write_text(folder / PLAN_FILE, json.dumps(asdict(whole)))


def _by_key(tiles: TilesOf) -> dict[str, Tiles]:
    return {port_key(port): one for port, one in tiles.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOutput:
    """A rank's report of an output: all elements; or one copy, the copy farthest from it, and a digest of all."""

    value: NDArray[Any]
    farthest: NDArray[Any] | None = None
    bits: int = 0


def told(x: NDArray[Any], tiles: Tiles | None) -> RankOutput:
    """Report an output [elements]; one of another size than its tiles is reported whole."""
    if tiles is None or len(x) != tiles.large:
        return RankOutput(value=x)
    first, farthest = tiles.fold(x)
    return RankOutput(value=first, farthest=farthest, bits=bits(x))


def observed(outputs: Values, tiles: TilesOf) -> Observed:
    """Return the outcome that ranks would report for outputs [ranks, elements]."""
    of_ranks = {port: [told(row, tiles.get(port)) for row in x] for port, x in outputs.items()}
    return Observed(
        outputs={port: np.stack([one.value for one in told]) for port, told in of_ranks.items()},
        farthest={port: np.stack([one.farthest for one in of_ranks[port]]) for port in tiles},  # type: ignore[misc]
        bits={port: [one.bits for one in of_ranks[port]] for port in tiles},
    )


def write_seen(folder: Path, index: int, rank: int, outputs: Mapping[Port, RankOutput]) -> None:
    arrays: dict[str, Any] = {}
    for port, one in outputs.items():
        arrays[port_key(port)] = _kept(one.value)
        if one.farthest is not None:
            arrays[FARTHEST + port_key(port)] = _kept(one.farthest)
            arrays[BITS + port_key(port)] = np.uint64(one.bits)
    np.savez(folder / f"out-{index}-{rank}.npz", **arrays)


def write_said(folder: Path, index: int, rank: int, what: str, text: str) -> None:
    """Write what trial `index` did on a rank in place of outputs: `error` or `overwritten`, and the words."""
    (folder / f"out-{index}-{rank}.{what}").write_text(text)


def read_seen(folder: Path, trials: Sequence[Trial], ranks: int) -> list[Observed]:
    read = lru_cache(maxsize=1)(
        _arrays
    )  # of one trial's ranks at once; those of all trials together may be large
    return [_observed(folder, index, trial, ranks, read) for index, trial in enumerate(trials)]


def port_key(port: Port) -> str:
    """Return a port as the name of an array in a file."""
    return json.dumps(port)


def _kept(x: NDArray[Any]) -> NDArray[Any]:
    return x if x.dtype in KEPT else x.astype(np.float64)


def _observed(folder: Path, index: int, trial: Trial, ranks: int, read: "_Read") -> Observed:
    for rank in range(ranks):
        error, overwritten = (_said(folder, index, rank, what) for what in ("error", "overwritten"))
        if error or overwritten:
            return Observed(outputs={}, error=error, overwritten=overwritten)
    ports = tuple(trial.job.program.problem.outputs)
    files = tuple(folder / f"out-{index}-{rank}.npz" for rank in range(ranks))
    tiled = tuple(port for port in ports if port in trial.output_tiles)
    return Observed(
        outputs=_Outputs(files, ports, read),
        farthest=_Outputs(files, tiled, read, FARTHEST),
        bits=_Outputs(files, tiled, read, BITS),
    )


def _said(folder: Path, index: int, rank: int, what: str) -> str:
    file = folder / f"out-{index}-{rank}.{what}"
    return f"rank {rank}: {file.read_text()}" if file.exists() else ""


_Read = Callable[[tuple[Path, ...]], list[dict[str, NDArray[Any]]]]


def _arrays(files: tuple[Path, ...]) -> list[dict[str, NDArray[Any]]]:
    content = []
    for file in files:
        with np.load(file) as arrays:
            content.append(dict(arrays))
    return content


class _Outputs(Mapping[Port, NDArray[Any]]):
    """Outputs of a trial, read on access."""

    def __init__(self, files: tuple[Path, ...], ports: Sequence[Port], read: _Read, before: str = "") -> None:
        self._before = before
        self._files = files
        self._ports = ports
        self._read = read

    def __getitem__(self, port: Port) -> NDArray[Any]:
        if port not in self._ports:
            raise KeyError(port)
        return np.stack([arrays[self._before + port_key(port)] for arrays in self._read(self._files)])

    def __iter__(self) -> Iterator[Port]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)
