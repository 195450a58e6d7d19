"""This rank of torch.distributed (`backends.rank.Rank`): join the others, report errors, leave cleanly."""

import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends import processes
from overlayccl_core.backends.launch import STATUS_FILE
from overlayccl_core.backends.rank import Members
from overlayccl_core.backends.status import Phase, RankStatus, Status
from overlayccl_core.backends.torchdist import bench_driver, frameworks
from overlayccl_core.measuring.arms import ddp_bucket

LEAD_NS = 2_000_000  # an all_reduce of 8 bytes is usually over within 2 ms
STAY_S = 30.0  # the launcher ends all ranks once all are done: one that leaves earlier may upset the others
NEVER = timedelta(hours=12)  # the launcher decides when a rank hangs, not the library
CALLS = "c10d."  # every call of torch.distributed passes torch's dispatcher under this name
NO_CALLS = ("c10d.recv_", "c10d.barrier")  # a permute is counted once, where it sends


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """This rank: its number, how many there are, where its tensors live, and its status row."""

    index: int
    ranks: int
    device: str
    status: RankStatus
    folder: Path

    def largest(self, *values: float) -> list[float]:
        """The largest of each value over all ranks, on all ranks."""
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return [float(x) for x in tensor.tolist()]

    def meet(self) -> None:
        """Return on all ranks at the same instant: agreed ahead of time, then slept for: nobody spins.

        The ranks' clocks are one: a launch is on one host.
        """
        instant = torch.tensor([time.monotonic_ns() + LEAD_NS], device=self.device)
        dist.all_reduce(instant, op=dist.ReduceOp.MAX)
        left_ns = int(instant.item()) - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)

    def force(self) -> None:
        """Wait until everything that was issued on the device has happened."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    @property
    def library_version(self) -> str:
        """torch's version: gloo and nccl come with it."""
        return f"torch {torch.__version__}"

    def make_usual_groups(self) -> None:
        """Contiguous groups of every size that divides the ranks."""
        bench_driver.make_usual_groups()

    def load(self, path: Path, name: str, members: Members) -> ModuleType:
        """Import an emitted module and connect it."""
        module = bench_driver.load_module(path, name)
        module.connect(members, bench_driver.shared_group, self.device)
        return module

    def load_deployed(self, path: Path, name: str, members: Members, case: str) -> bench_driver.Deployed:
        """Import a deployed file and connect one of its Cases."""
        return bench_driver.Deployed(bench_driver.load_module(path, name), case, members, self.device)

    def framework_step(self, model: torch.nn.Module, arm: str) -> Callable[[Sequence[Any]], float]:
        """DistributedDataParallel with the bucket size that the arm names, or `fully_shard` (frameworks.py)."""
        bucket_mib = ddp_bucket(arm)
        if bucket_mib is None:
            return frameworks.sharded(model, self.device)
        return frameworks.replicated(model, float(bucket_mib))

    def own_part(self, tensor: torch.Tensor) -> torch.Tensor:
        """What this rank has of a parameter or gradient: `fully_shard` keeps them as DTensors."""
        return frameworks.own_part(tensor)

    def library_calls(self, operation: str) -> int | None:
        """Calls that an operation of torch's dispatcher is; None: it is not torch.distributed's."""
        return int(operation not in NO_CALLS) if operation.startswith(CALLS) else None


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    """Join the process group, do the work, say so. An exception goes to rank-<r>.error and ends the launch."""
    processes.die_with_parent()
    index, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    status = Status.open(folder / STATUS_FILE, ranks).row(index)
    status.start(os.getpid())
    status.enter(Phase.JOINING)
    try:
        torch.set_num_threads(1)
        device = _device(library)
        dist.init_process_group(library, timeout=NEVER)
        work(Rank(index=index, ranks=ranks, device=device, status=status, folder=folder))
        status.enter(Phase.DONE)
        time.sleep(STAY_S)
    except Exception:
        failed_ns = time.monotonic_ns()
        (folder / f"rank-{index}.error").write_text(traceback.format_exc())
        status.fail(failed_ns)
        os._exit(1)  # the group cannot be left in order: the others may be inside a collective
    os._exit(0)


def _device(library: str) -> str:
    if library != "nccl":
        return "cpu"
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return f"cuda:{local}"
