"""What a rank of `run_once` runs: every module once on this rank's rows of the inputs."""

import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from overlayccl_core.backends.plan import PlannedPort
from overlayccl_core.backends.rank import Rank, run_rank
from overlayccl_core.backends.status import Phase
from overlayccl_core.backends.torch_ranks.driver import Emitted, collect
from overlayccl_core.backends.trials import (
    PlannedTrial,
    port_key,
    read_trials,
    write_error,
    write_overwritten,
    write_seen,
)
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import port_text


@lru_cache(maxsize=1)  # trials that share their inputs follow each other
def _given(file: Path, ports: tuple[PlannedPort, ...], rank: int, device: str) -> dict[Port, torch.Tensor]:
    """port -> this rank's row of it."""
    with np.load(file) as arrays:
        return {
            p.port: torch.from_numpy(arrays[port_key(p.port)][rank].copy()).to(
                device, getattr(torch, p.dtype)
            )
            for p in ports
        }


def _run(rank: Rank, index: int, trial: PlannedTrial) -> None:
    job = trial.job
    given = _given(rank.folder / trial.inputs, job.inputs, rank.index, rank.device)
    inputs = {port: x.clone() for port, x in given.items()}
    module = Emitted.load(rank.folder / job.module, f"emitted_{index}", job, rank)
    outputs = collect(module, inputs)
    rank.end_call()
    rank.force()
    changed = [
        port for port, x in inputs.items() if not torch.equal(x.nan_to_num(), given[port].nan_to_num())
    ]
    if changed:
        write_overwritten(rank.folder, index, rank.index, f"input {port_text(changed[0])} was overwritten")
    else:
        write_seen(rank.folder, index, rank.index, {port: _values(x) for port, x in outputs.items()})


def _values(x: torch.Tensor) -> np.ndarray:
    wide = x if x.dtype in (torch.float32, torch.float64) else x.double()
    return wide.cpu().numpy()  # type: ignore[no-any-return]


def main(folder: Path) -> None:
    """Run the trials of a folder."""
    trials, may_refuse = read_trials(folder)
    refusals = (RuntimeError, ValueError, TypeError) if may_refuse else ()

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        for index, trial in enumerate(trials):
            rank.status.work_on(index)
            try:
                _run(rank, index, trial)
            except refusals as error:
                write_error(folder, index, rank.index, error)

    run_rank(folder, work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
