"""torch's own data parallelism, as steps without optimizer, to race modules against (`Rank.framework_step`)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

FrameworkStep = Callable[[Sequence[Any]], torch.Tensor]


def replicated(model: torch.nn.Module, bucket_mib: float) -> FrameworkStep:
    """DistributedDataParallel, which exchanges gradients in the backward of the last batch alone.

    Gradients stay where they were reduced (`gradient_as_bucket_view`): a copy and a buffer less.
    """
    wrapped = DistributedDataParallel(model, bucket_cap_mb=bucket_mib, gradient_as_bucket_view=True)

    def step(batches: Sequence[Any]) -> torch.Tensor:
        losses = []
        for m, batch in enumerate(batches):
            wrapped.require_backward_grad_sync = m == len(batches) - 1  # what `no_sync` does
            losses.append(_passes(wrapped, batch, len(batches)))
        return torch.stack(losses)

    return step


def sharded(model: torch.nn.Module, device: str) -> FrameworkStep:
    """FSDP (`fully_shard`): each of `model.units` gathered when it runs, in both passes, its gradients handed out.

    All other parameters stay whole on every rank; their gradients are averaged in one buffer.
    """
    mesh = init_device_mesh(device.partition(":")[0], (dist.get_world_size(),))
    of_units = {parameter for unit in model.units for parameter in unit.parameters()}
    whole = [parameter for parameter in model.parameters() if parameter not in of_units]
    for unit in model.units:
        fully_shard(unit, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=set(whole))

    def step(batches: Sequence[Any]) -> torch.Tensor:
        losses = torch.stack([_passes(model, batch, len(batches)) for batch in batches])
        gradients = torch.cat([parameter.grad.flatten() for parameter in whole])
        dist.all_reduce(gradients)
        gradients /= dist.get_world_size()
        sizes = [parameter.numel() for parameter in whole]
        for parameter, mean in zip(whole, gradients.split(sizes), strict=True):
            parameter.grad = mean.view_as(parameter)
        return losses

    return step


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's rows of what `fully_shard` keeps in shards; anything else as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _passes(model: torch.nn.Module, batch: Any, batches: int) -> torch.Tensor:
    """Forward and backward of one batch's share of the mean loss; its own loss is returned."""
    loss = model(batch)
    (loss / batches).backward()
    return loss.detach()
