"""A linear layer with a deferred weight gradient, to be computed during a sum over ranks (Megatron-LM)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from overlayccl_core.training.segments import Tensor


class _Deferring(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, later: list[Callable[[], None]]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.later = weight, later
        return functional.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        [x], weight = ctx.saved_tensors, ctx.weight
        rows = gradient.flatten(0, -2)
        ctx.later.append(partial(_add_gradient, weight, rows, x.flatten(0, -2)))
        return torch.mm(rows, weight).view_as(x), None, None


def deferring(later: list[Callable[[], None]], x: Tensor, weight: Tensor) -> Tensor:
    """Return `functional.linear(x, weight)`: [..., I], [O, I] -> [..., O].

    Its backward returns the gradient of x; a function appended to `later` adds the weight's to `weight.grad`.
    """
    return _Deferring.apply(x, weight, later)


def _add_gradient(weight: Tensor, gradient: Tensor, x: Tensor) -> None:
    with torch.no_grad():
        of_weight = torch.mm(gradient.t(), x)
    weight.grad = of_weight if weight.grad is None else weight.grad.add_(of_weight)
