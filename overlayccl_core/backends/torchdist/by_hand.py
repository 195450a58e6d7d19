"""Tensor parallelism as an engineer writes it in torch: autograd functions with sums over ranks (Megatron-LM).

Shoeybi et al. 2019, section 3, has f in front of a sublayer and g behind it. In a parallel block one g sums both
parts (as in GPT-NeoX), and one f sums the gradients of their inputs.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class _Entered(torch.autograd.Function):  # type: ignore[misc]
    """f: the identity; its backward sums over ranks and meanwhile does the work of `later`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, later: list[Callable[[], None]]) -> torch.Tensor:
        ctx.later = later
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        work = dist.all_reduce(gradient, async_op=True)
        while ctx.later:
            ctx.later.pop()()
        work.wait()
        return gradient, None


class _Left(torch.autograd.Function):  # type: ignore[misc]
    """g: a sum over ranks, in place; the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def connect(model: torch.nn.Module, *, hidden: bool) -> None:
    """Give a model (`training/tensor_parallel.py`, Summing) its sums in front of each sublayer and behind it.

    hidden: sums of input gradients are in flight while the gradients of the weights behind them are computed.
    """
    later: list[Callable[[], None]] = []
    model.connect(
        enter=lambda x: _Entered.apply(x, later), leave=_Left.apply, later=later if hidden else None
    )
