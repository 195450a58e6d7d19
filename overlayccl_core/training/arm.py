"""One arm of a comparison on one rank: its parameters, its optimizer, its modules, and one step of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from overlayccl_core.backends.torchdist.bench_driver import load_module, shared_group
from overlayccl_core.configuration.models import Model, Parallelism
from overlayccl_core.training.data_parallel import DataParallelStep
from overlayccl_core.training.driver import SiteModule, run_step
from overlayccl_core.training.models.llama import Pieces, full_parameters
from overlayccl_core.training.plan import Arm, ArmSite
from overlayccl_core.training.segments import Tensor
from overlayccl_core.training.tensor_parallel import TensorParallelStep

LEARNING_RATE = 1e-3
MIB = 2**20


class Modules:
    """The connected modules of an arm, by site; loaded once, used by every seed."""

    def __init__(self, arm: Arm, folder: Path, name: str, device: str) -> None:
        self.sites: tuple[ArmSite, ...] = arm.sites
        self.modules: dict[str, ModuleType] = {}
        for site in arm.sites:
            module = load_module(folder / site.module, f"{name}_{site.site}")
            module.connect(site.members, shared_group, device)
            self.modules[site.site] = module

    @property
    def overlap(self) -> bool:
        """Whether a module starts a collective before it has read all that it reads."""
        return any(_starts_early(module.SCHEDULE["forward"]) for module in self.modules.values())

    def fresh(self) -> list[SiteModule]:
        """Generators for one step."""
        return [
            SiteModule(
                site=site.site,
                generator=self.modules[site.site].forward(),
                read=self.modules[site.site].Read,
                shapes=dict(site.shapes),
            )
            for site in self.sites
        ]


def _starts_early(schedule: Sequence[tuple[Any, ...]]) -> bool:
    kinds = [event[0] for event in schedule]
    return "issue" in kinds and "read" in kinds[kinds.index("issue") :]


class ArmState:
    """The model of an arm on this rank, from one seed on."""

    def __init__(self, arm: Arm, model: Model, modules: Modules, *, seed: int, rank: int, ranks: int) -> None:
        self.arm = arm
        self.modules = modules
        self.tensor_parallel = model.parallelism is Parallelism.TENSOR
        full = full_parameters(model, seed)
        place, parts = (rank, ranks) if self.tensor_parallel else (0, 1)
        self.pieces = Pieces(model, full, place, parts)
        self.framework = None if arm.ddp_bucket_mib is None else _framework(self.pieces, arm.ddp_bucket_mib)
        self.optimizer = torch.optim.AdamW(self.pieces.parameters.values(), lr=LEARNING_RATE, fused=True)

    def gradients(self, microbatches: Sequence[Tensor]) -> float:
        """Forward and backward of one step; returns the mean loss of this rank's microbatches."""
        self.optimizer.zero_grad(set_to_none=True)
        batches = [torch.cat(list(microbatches))] if self.arm.merged_batch else microbatches
        if self.framework is not None:
            return _framework_step(self.framework, batches)
        step: Any = (
            TensorParallelStep(self.pieces, batches)
            if self.tensor_parallel
            else DataParallelStep(self.pieces, batches, in_blocks=self.modules.overlap)
        )
        run_step(self.modules.fresh(), step.segments())
        return float(sum(step.losses.values()) / len(batches))

    def step(self, microbatches: Sequence[Tensor]) -> float:
        """One step with its optimizer."""
        loss = self.gradients(microbatches)
        self.optimizer.step()
        return loss


class _Whole(torch.nn.Module):  # type: ignore[misc]
    """The model as torch's own data parallelism wants it; the pieces use its parameters from now on."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self.pieces = pieces
        for name, value in pieces.parameters.items():
            pieces.parameters[name] = torch.nn.Parameter(value.detach())
            self.register_parameter(name.replace(".", "_"), pieces.parameters[name])

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss."""
        return self.pieces.whole(tokens)


def _framework(pieces: Pieces, bucket_mib: float) -> DistributedDataParallel:
    return DistributedDataParallel(_Whole(pieces), bucket_cap_mb=bucket_mib)


def _framework_step(module: DistributedDataParallel, batches: Sequence[Tensor]) -> float:
    total = 0.0
    for m, tokens in enumerate(batches):
        last = m == len(batches) - 1
        module.require_backward_grad_sync = last  # what `no_sync` does
        loss = module(tokens) / len(batches)
        total += float(loss.detach())
        loss.backward()
    return total


def unsharded_gradients(model: Model, microbatches: Sequence[Tensor], *, seed: int) -> Mapping[str, Tensor]:
    """Gradients of the mean loss over microbatches of the whole model, computed on this rank alone."""
    pieces = Pieces(model, full_parameters(model, seed))
    for tokens in microbatches:
        (pieces.whole(tokens) / len(microbatches)).backward()
    return {name: parameter.grad for name, parameter in pieces.parameters.items()}
