"""This rank of torch_xla (`backends.rank.Rank`): a device of PJRT, and gloo beside it for control messages."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends.rank import Members
from overlayccl_core.backends.torch_ranks import driver
from overlayccl_core.backends.torch_ranks.joining import RankPlace, joined
from overlayccl_core.backends.torch_ranks.rank import NEVER, TorchRank
from overlayccl_core.backends.torchxla.environment import STANDIN, ZERO_OUTPUTS
from overlayccl_core.backends.torchxla.standin.install import install
from overlayccl_core.measuring.frameworks import FrameworkArm

STANDIN_CALLS = "c10d."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank(TorchRank):
    """This rank, and torch_xla or its stand-in; its members are declared in `backends.rank.Rank`."""

    xla: Any

    @property
    def device(self) -> str:
        return str(self.xla.device())

    @property
    def library_version(self) -> str:
        return f"torch_xla {self.xla.__version__}, torch {torch.__version__}"

    @property
    def is_lazy(self) -> bool:
        """True: calls are traced."""
        return True

    def end_call(self) -> None:
        """End and start the traced graph, without waiting for it."""
        self.xla.sync()

    def force(self) -> None:
        """Wait until every graph has run: a waiting sync only waits for the graph it started itself."""
        self.xla.sync()
        self.xla.core.xla_model.wait_device_ops()

    def compiled(self) -> tuple[int, float]:
        """Return (graphs, seconds) as counted by torch_xla; the stand-in compiles nothing."""
        counted = self.xla.debug.metrics.metric_data("CompileTime")
        return (counted[0], counted[1] / 1e9) if counted else (0, 0.0)

    def make_usual_groups(self) -> None:
        """Make nothing: replica groups are part of a graph."""

    def load(self, path: Path, name: str, members: Members) -> ModuleType:
        module = driver.load_module(path, name)
        module.connect(members, on=self.device)
        return module

    def load_deployed(
        self, path: Path, name: str, members: Members, case: str, way: str
    ) -> driver.ConnectedCase:
        module = driver.load_module(path, name)
        return driver.ConnectedCase(module, case, way, members, module.kept_group, self.device)

    def framework_step(
        self, model: torch.nn.Module, arm: FrameworkArm
    ) -> Callable[[Sequence[Any]], torch.Tensor]:
        """Raise ValueError: torch's own arms are torch.distributed's."""
        raise ValueError(f"torch_xla has no step {arm.name}: leave the arm out, as FRAMEWORK_ARMS says")

    def own_part(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def library_calls(self, operation: str) -> int | None:
        """Return None: torch's dispatcher does not see the calls of torch_xla.

        0: the operation is the stand-in's, part of a call of torch_xla.
        """
        return 0 if operation.startswith(STANDIN_CALLS) else None


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    """Join the others, do the work, report its end. An exception goes to rank-<r>.error and ends the launch."""
    with joined(folder) as (place, status):
        if os.environ.get(ZERO_OUTPUTS) == "1":
            raise RuntimeError(
                f"{ZERO_OUTPUTS}=1: graphs are collected and never run: unset it to measure or to check"
            )
        xla, control = _stand_in() if library == STANDIN else _joined_devices(place)
        work(Rank(place=place, status=status, folder=folder, control=control, xla=xla))


def _stand_in() -> tuple[Any, Any]:
    dist.init_process_group("gloo", timeout=NEVER)
    install()
    import torch_xla

    return torch_xla, dist.group.WORLD


def _joined_devices(place: RankPlace) -> tuple[Any, Any]:
    """Return torch_xla and gloo's group; RuntimeError if torch_xla does not have the launch's ranks."""
    if util.find_spec("torch_neuronx") is not None:
        import torch_neuronx  # noqa: F401  (it registers its plug-in)
    import torch_xla
    import torch_xla.debug.metrics
    import torch_xla.distributed.xla_backend
    from torch_xla import runtime

    dist.init_process_group("xla", init_method="xla://", timeout=NEVER)
    if (found := runtime.world_size()) != place.ranks or runtime.global_ordinal() != place.rank:
        raise RuntimeError(
            f"{place.ranks} ranks were started, and torch_xla has {found}, of which this is "
            f"{runtime.global_ordinal()} "
            f"(PJRT_DEVICE is {os.environ.get('PJRT_DEVICE', 'not set')}): it does not see the others"
        )
    return torch_xla, dist.new_group(backend="gloo", timeout=NEVER)
