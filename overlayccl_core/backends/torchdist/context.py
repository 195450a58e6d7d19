"""Context parallelism as people write it: functions of autograd around attention."""

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from overlayccl_core.backends.torchdist.data_parallel import FrameworkStep, averaging
from overlayccl_core.backends.torchdist.differentiable import exchanged, gathered

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Attention without ranks, of the queries of own positions or of all: queries, keys and values of all positions."""


def context_parallel(
    model: torch.nn.Module, device: str, *, exchange: str, ddp: bool = False
) -> FrameworkStep:
    """Step with the positions of a text over all ranks; the gradients of all parameters are averaged.

    Args:
        model: `training/context_parallel.py`, SpreadAttention.
        exchange: One of EXCHANGES.
        ddp: As in `averaging`.
    """
    model.connect(EXCHANGES[exchange])
    return averaging(model, device, list(model.parameters()), ddp=ddp)


def with_keys_gathered(
    attend: Attend, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *, joined: bool
) -> torch.Tensor:
    """Attend with own queries to the keys of all ranks: thrice [..., S / N, D] -> [..., S / N, D].

    joined: Keys and values are gathered in one call.
    """
    if joined:
        return attend(q, *_whole(torch.stack([keys, values])))
    return attend(q, _whole(keys), _whole(values))


def _whole(x: torch.Tensor) -> torch.Tensor:
    """Return all positions, rank after rank: [..., S / N, D] -> [..., S, D]."""
    return gathered(x[None]).movedim(0, -3).flatten(-3, -2)


def with_heads_exchanged(
    attend: Attend, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Attend with 1 / N of the heads over all positions (DeepSpeed-Ulysses): thrice [B, H, S / N, D] -> the same.

    One all_to_all brings queries, keys and values to the ranks of their heads, one brings the result back.
    """
    ranks = dist.get_world_size()
    by_heads = torch.stack([q, keys, values]).unflatten(2, (ranks, -1)).movedim(2, 0)
    mine = exchanged(by_heads, None, None).movedim(0, -3).flatten(-3, -2)  # [3, B, H / N, S, D]
    by_positions = attend(*mine).unflatten(-2, (ranks, -1)).movedim(-3, 0)
    return exchanged(by_positions, None, None).movedim(0, 1).flatten(1, 2)


EXCHANGES: dict[str, Callable[..., torch.Tensor]] = {
    "gathered": partial(with_keys_gathered, joined=False),
    "joined": partial(with_keys_gathered, joined=True),
    "ulysses": with_heads_exchanged,
}
"""By the setting of an arm."""
