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
    Copies,
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
def _given(file: Path, ports: tuple[PlannedPort, ...], rank: int, copies: Copies) -> dict[Port, torch.Tensor]:
    """port -> this rank's row of it, in the memory of the host."""
    with np.load(file) as arrays:
        return {
            p.port: _unfolded(torch.from_numpy(arrays[port_key(p.port)][rank].copy()), copies).to(
                getattr(torch, p.dtype)
            )
            for p in ports
        }


def _unfolded(row: torch.Tensor, copies: Copies) -> torch.Tensor:
    if copies.number == 1:
        return row
    return row.view(-1, 1, copies.block).expand(-1, copies.number, -1).reshape(-1)


def _folded(whole: torch.Tensor, copies: Copies) -> torch.Tensor:
    """The first copy that is unlike the first of all, anywhere; the first where all are alike."""
    if copies.number == 1:
        return whole
    blocks = whole.view(-1, copies.number, copies.block)
    unlike = (blocks != blocks[:, :1]).any(dim=2).any(dim=0).nonzero()
    return blocks[:, int(unlike[0]) if len(unlike) else 0].reshape(-1)


def _run(rank: Rank, index: int, trial: PlannedTrial) -> None:
    job = trial.job
    given = _given(rank.folder / trial.inputs, job.inputs, rank.index, trial.copies)
    inputs = {port: x.to(rank.device, copy=True) for port, x in given.items()}
    module = Emitted.load(rank.folder / job.module, f"emitted_{index}", job, rank)
    collected = collect(module, inputs)
    rank.end_call()
    rank.force()
    outputs = {
        port: x.cpu() for port, x in collected.items()
    }  # a device would compile what is asked of it there
    changed = [port for port, x in inputs.items() if not _alike(x.cpu(), given[port])]
    if changed:
        write_overwritten(rank.folder, index, rank.index, f"input {port_text(changed[0])} was overwritten")
    else:
        seen = {port: _folded(x, trial.copies) for port, x in outputs.items()}
        write_seen(rank.folder, index, rank.index, {port: _values(x) for port, x in seen.items()})


def _alike(x: torch.Tensor, y: torch.Tensor) -> bool:
    return bool(torch.equal(x.nan_to_num(), y.nan_to_num()))


def _values(x: torch.Tensor) -> np.ndarray:
    wide = x if x.dtype in (torch.float32, torch.float64) else x.double()
    return wide.numpy()  # type: ignore[no-any-return]


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
