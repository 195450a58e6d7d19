"""Context parallelism as people write it: keys and values gathered by functions of autograd."""

from collections.abc import Sequence
from functools import partial

import torch

from overlayccl_core.backends.torchdist.data_parallel import FrameworkStep, averaging
from overlayccl_core.backends.torchdist.differentiable import gathered


def context_parallel(
    model: torch.nn.Module, device: str, *, joined: bool, ddp: bool = False
) -> FrameworkStep:
    """Step with the positions of a text over all ranks; the gradients of all parameters are averaged.

    Args:
        model: `training/context_parallel.py`, Gathering.
        joined: Keys and values are gathered in one call.
        ddp: As in `averaging`.
    """
    model.connect(gather=partial(gather, joined=joined))
    return averaging(model, device, list(model.parameters()), ddp=ddp)


def gather(keys: torch.Tensor, values: torch.Tensor, *, joined: bool) -> Sequence[torch.Tensor]:
    """Return keys and values of all positions, rank after rank: [..., S / N, D] -> [..., S, D] each."""
    return _whole(torch.stack([keys, values])).unbind() if joined else (_whole(keys), _whole(values))


def _whole(x: torch.Tensor) -> torch.Tensor:
    return gathered(x[None]).movedim(0, -3).flatten(-3, -2)
