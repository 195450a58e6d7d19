"""Collectives as functions of autograd, over all ranks: the gradient is that of the sum over ranks of their losses.

So a gather has a reduce-scatter as its backward, an exchange the exchange back.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends.torchdist.groups import Group

# Since torch 2.13 the old names warn.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

Sizes = Sequence[int] | None
"""Rows for each rank, or from each; None: as many for each."""
Call = Callable[[torch.Tensor], torch.Tensor]


def all_gather(x: torch.Tensor) -> torch.Tensor:
    """Return the rows of all ranks, one rank behind the other: [R, ...] -> [N * R, ...]; not differentiable."""
    gathered = x.new_empty(dist.get_world_size() * x.shape[0], *x.shape[1:])
    _all_gather(gathered, x.contiguous())
    return gathered


def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows of the sum over ranks: [N * R, ...] -> [R, ...]; not differentiable."""
    mine = x.new_empty(x.shape[0] // dist.get_world_size(), *x.shape[1:])
    _reduce_scatter(mine, x.contiguous())
    return mine


def all_to_all(x: torch.Tensor, send: Sizes, receive: Sizes, group: Group = None) -> torch.Tensor:
    """Return the rows for this rank, by source: [sum(send), ...] -> [sum(receive), ...]; not differentiable.

    group: The ranks that exchange (None: all).
    """
    rows = x.shape[0] if receive is None else sum(receive)
    arrived = x.new_empty(rows, *x.shape[1:])
    dist.all_to_all_single(arrived, x.contiguous(), receive, send, group=group)
    return arrived


class _Call(torch.autograd.Function):  # type: ignore[misc]
    """A call of the library, and the one that brings gradients back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: Call, back: Call) -> torch.Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.back(gradient), None, None


def gathered(x: torch.Tensor) -> torch.Tensor:
    """`all_gather` with its backward, `reduce_scatter`."""
    return _Call.apply(x, all_gather, reduce_scatter)


def scattered(x: torch.Tensor) -> torch.Tensor:
    """`reduce_scatter` with its backward, `all_gather`."""
    return _Call.apply(x, reduce_scatter, all_gather)


def exchanged(x: torch.Tensor, send: Sizes, receive: Sizes, group: Group = None) -> torch.Tensor:
    """`all_to_all` with its backward, the exchange back."""
    return _Call.apply(
        x,
        partial(all_to_all, send=send, receive=receive, group=group),
        partial(all_to_all, send=receive, receive=send, group=group),
    )
