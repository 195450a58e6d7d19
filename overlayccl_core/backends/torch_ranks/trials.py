"""The worker of `run_once`: run every module once on this rank's rows of the inputs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from overlayccl_core import disk
from overlayccl_core.backends.rank import Rank, compile_together, run_rank
from overlayccl_core.backends.torch_ranks.driver import Emitted, collect
from overlayccl_core.backends.trials import (
    PlannedTrial,
    PlannedTrials,
    port_key,
    told,
    write_said,
    write_seen,
)
from overlayccl_core.launching.status import Phase
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import port_text


class _Given:
    """The inputs of a trial on this rank, made on request: all of them together may be large."""

    def __init__(self, file: Path, trial: PlannedTrial, rank: int) -> None:
        with np.load(file) as arrays:
            self._rows = {p.port: arrays[port_key(p.port)][rank].copy() for p in trial.job.inputs}
        self._dtypes = {p.port: getattr(torch, p.dtype) for p in trial.job.inputs}
        self._tiles = trial.input_tiles

    def __iter__(self) -> Iterator[Port]:
        return iter(self._rows)

    def of(self, port: Port) -> torch.Tensor:
        """Return a new tensor, in the memory of the host."""
        row = self._rows[port]
        whole = self._tiles[key].spread(row) if (key := port_key(port)) in self._tiles else row.copy()
        return torch.from_numpy(whole).to(self._dtypes[port])


def _run(rank: Rank, index: int, trial: PlannedTrial) -> None:
    job = trial.job
    given = _Given(rank.folder / trial.inputs, trial, rank.index)
    inputs = {port: given.of(port).to(rank.device) for port in given}
    module = Emitted.load(rank.folder / job.module, f"emitted_{index}", job, rank)
    collected = collect(module, inputs)
    rank.end_call()
    rank.force()
    changed = [port for port, x in inputs.items() if not _alike(x.cpu(), given.of(port))]
    if changed:
        words = f"input {port_text(changed[0])} was overwritten"
        write_said(rank.folder, index, rank.index, "overwritten", words)
        return
    seen = {}
    for port in list(collected):  # one at a time, on the host: a device would compile each operation
        seen[port] = told(_values(collected.pop(port).cpu()), trial.output_tiles.get(port_key(port)))
    write_seen(rank.folder, index, rank.index, seen)


def _alike(x: torch.Tensor, y: torch.Tensor) -> bool:
    return bool(torch.equal(x.nan_to_num(), y.nan_to_num()))


def _values(x: torch.Tensor) -> np.ndarray:
    wide = x if x.dtype in (torch.float32, torch.float64) else x.double()
    return wide.numpy()  # type: ignore[no-any-return]


def main(folder: Path) -> None:
    plan = PlannedTrials.read(folder)
    refusals = (RuntimeError, ValueError, TypeError) if plan.may_refuse else ()

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        compile_together(rank, [rank.folder / trial.job.module for trial in plan.trials])
        for index, trial in enumerate(plan.trials):
            rank.status.work_on(index)
            try:
                _run(rank, index, trial)
            except refusals as error:
                if disk.refused(error):
                    raise
                write_said(folder, index, rank.index, "error", f"{type(error).__name__}: {error}")

    run_rank(folder, work)
