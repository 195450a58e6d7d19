"""This rank of torch.distributed (`backends.rank.Rank`): join the others, report errors, leave cleanly."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from overlayccl_core.backends.rank import Members
from overlayccl_core.backends.torch_ranks import driver
from overlayccl_core.backends.torch_ranks.joining import joined
from overlayccl_core.backends.torch_ranks.rank import NEVER, TorchRank
from overlayccl_core.backends.torchdist import groups
from overlayccl_core.measuring.frameworks import FrameworkArm

if TYPE_CHECKING:
    from overlayccl_core.backends.torchdist.data_parallel import FrameworkStep

CALLS = ("c10d.", "_c10d_functional.")  # as torch's dispatcher sees every call of torch.distributed
NO_CALLS = (
    *("c10d.recv_", "c10d.barrier"),  # a permute is counted once, at its sender
    *("_c10d_functional.wait_tensor", "_c10d_functional._wrap_tensor_autograd"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank(TorchRank):
    """This rank; its members are declared in `backends.rank.Rank`."""

    device: str

    @property
    def is_lazy(self) -> bool:
        """False: calls are issued as they come."""
        return False

    def end_call(self) -> None:
        """Do nothing: calls are issued as they come."""

    def force(self) -> None:
        if self.device != "cpu":
            torch.accelerator.synchronize()

    def compiled(self) -> tuple[int, float]:
        return 0, 0.0

    @property
    def library_version(self) -> str:
        """torch's version: gloo and nccl come with it."""
        return f"torch {torch.__version__}"

    def make_usual_groups(self) -> None:
        groups.make_usual_groups()

    def load(self, path: Path, name: str, members: Members) -> ModuleType:
        module = driver.load_module(path, name)
        module.connect(members, groups.shared_group, self.device)
        return module

    def load_deployed(
        self, path: Path, name: str, members: Members, case: str, way: str
    ) -> driver.ConnectedCase:
        module = driver.load_module(path, name)
        return driver.ConnectedCase(module, case, way, members, groups.shared_group, self.device)

    def framework_step(self, model: torch.nn.Module, arm: FrameworkArm) -> "FrameworkStep":
        """Return the step of frameworks.py. Only ranks in training import it: it takes a second."""
        from overlayccl_core.backends.torchdist import frameworks

        return frameworks.STEPS[arm.framework](model, self.device, **arm.settings)

    def own_part(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return this rank's part of a parameter or gradient; `fully_shard` keeps DTensors."""
        from overlayccl_core.backends.torchdist import frameworks

        return frameworks.own_part(tensor)

    def library_calls(self, operation: str) -> int | None:
        """Return the calls in an operation of torch's dispatcher; None if it is not torch.distributed's."""
        return int(operation not in NO_CALLS) if operation.startswith(CALLS) else None


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    """Join the process group, do the work, report its end. Exceptions go to rank-<r>.error and end the launch."""
    with joined(folder) as (place, status):
        device = _device(library, place.local_rank)
        dist.init_process_group(library, timeout=NEVER)
        control = dist.group.WORLD if library == "gloo" else dist.new_group(backend="gloo", timeout=NEVER)
        work(Rank(place=place, status=status, folder=folder, control=control, device=device))


def _device(library: str, local_rank: int) -> str:
    if library == "gloo":
        return "cpu"
    if library == "neuron":
        import torch_neuronx  # noqa: F401  (it registers its device and its library)
    kind = "cuda" if library == "nccl" else library
    torch.accelerator.set_device_index(local_rank)
    return f"{kind}:{local_rank}"
