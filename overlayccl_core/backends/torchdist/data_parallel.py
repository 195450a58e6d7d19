"""Gradients averaged over ranks: by DistributedDataParallel during the backward pass, or in one buffer after it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FrameworkStep = Callable[[Sequence[Any]], torch.Tensor | None]


def replicated(model: torch.nn.Module, _device: str, **options: Any) -> FrameworkStep:
    """Step with DistributedDataParallel; it exchanges gradients only in the backward of the last batch."""
    wrapped = DistributedDataParallel(model, **options)

    def step(batches: Sequence[Any]) -> torch.Tensor:
        losses = []
        for m, batch in enumerate(batches):
            wrapped.require_backward_grad_sync = m == len(batches) - 1  # as `no_sync` does
            losses.append(passes(wrapped, batch, len(batches)))
        return torch.stack(losses)

    return step


def averaging(
    model: torch.nn.Module, device: str, parameters: Collection[torch.nn.Parameter], *, ddp: bool
) -> FrameworkStep:
    """Step that averages the gradients of these parameters and leaves those of all others alone.

    ddp: DistributedDataParallel averages them; otherwise it happens in one buffer.
    """
    if ddp:
        mine = set(parameters)
        others = [name for name, parameter in model.named_parameters() if parameter not in mine]
        others += [
            f".{name}" for name in others
        ]  # DDP also looks for the outermost module's under these names
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, others)
        return replicated(model, device, gradient_as_bucket_view=True)

    def step(batches: Sequence[Any]) -> torch.Tensor:
        losses = [passes(model, batch, len(batches)) for batch in batches]
        average(parameters)
        return torch.stack(losses)

    return step


def passes(model: torch.nn.Module, batch: Any, batches: int) -> torch.Tensor:
    """Run forward and backward of one batch's share of the mean loss; return the batch's loss."""
    loss = model(batch)
    (loss / batches).backward()
    return loss.detach()


def average(parameters: Collection[torch.nn.Parameter]) -> None:
    """Replace the gradients by their means over ranks, in one buffer."""
    gradients = torch.cat([parameter.grad.flatten() for parameter in parameters])
    dist.all_reduce(gradients)
    gradients /= dist.get_world_size()
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, mean in zip(parameters, gradients.split(sizes), strict=True):
        parameter.grad = mean.view_as(parameter)
