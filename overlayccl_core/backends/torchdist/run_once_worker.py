"""The torchrun target of `run_once`: runs every module once on this rank's rows of the inputs."""

import sys
from pathlib import Path

import numpy as np
import torch

from overlayccl_core.backends.plan import PlannedJob
from overlayccl_core.backends.status import Phase
from overlayccl_core.backends.torchdist.bench_driver import Emitted, collect
from overlayccl_core.backends.torchdist.rank import Rank, run_rank
from overlayccl_core.backends.torchdist.run_once import port_key, read_plan


def _run(rank: Rank, index: int, job: PlannedJob) -> None:
    arrays = np.load(rank.folder / f"in-{index}.npz")
    inputs = {
        p.port: torch.from_numpy(arrays[port_key(p.port)][rank.index]).to(
            rank.device, getattr(torch, p.dtype)
        )
        for p in job.inputs
    }
    kept = {port: x.clone() for port, x in inputs.items()}
    module = Emitted.load(
        rank.folder / job.module, f"emitted_{index}", job.function, job.members, rank.device
    )
    outputs = collect(module, inputs)
    rank.force()
    for port, x in inputs.items():
        if not torch.equal(x, kept[port]):
            raise RuntimeError(f"input {port} was overwritten")
    values = {port_key(port): x.double().cpu().numpy() for port, x in outputs.items()}
    np.savez(rank.folder / f"out-{index}-{rank.index}.npz", **values)


def main(folder: Path) -> None:
    """Run the trials of a folder."""
    library, jobs = read_plan(folder)

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        for index, job in enumerate(jobs):
            rank.status.work_on(index)
            try:
                _run(rank, index, job)
            except (RuntimeError, ValueError, TypeError) as error:  # a library refuses what it cannot do
                (folder / f"out-{index}-{rank.index}.error").write_text(f"{type(error).__name__}: {error}")

    run_rank(folder, library, work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
