"""The mean cross-entropy over a vocabulary whose rows of the head are spread over all ranks.

Hidden states of all ranks are gathered, so each rank has logits [M, V / N] of all M tokens, for its words. Every
rank returns the mean over all tokens. The gradient is that of the sum over ranks of what they return.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from overlayccl_core.backends.torchdist.differentiable import all_gather, gathered

Entropy = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class _Entropy(torch.autograd.Function):  # type: ignore[misc]
    """The output layer of Megatron-LM (Shoeybi et al. 2019, section 3), its softmax kept for the backward.

    stacked: one all_reduce has sums and target logits together; otherwise each has its own, as in Megatron-LM.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor, stacked: bool) -> torch.Tensor:
        words = logits.shape[1]
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        shifted = logits - largest[:, None]
        own = targets - dist.get_rank() * words
        here = (own >= 0) & (own < words)
        column = own.clamp(0, words - 1)[:, None]
        target = shifted.gather(1, column).squeeze(1) * here
        exponentials = shifted.exp_()
        total = exponentials.sum(1)
        if stacked:
            both = torch.stack([total, target])
            dist.all_reduce(both)
            total, target = both
        else:
            dist.all_reduce(target)
            dist.all_reduce(total)
        ctx.save_for_backward(exponentials.div_(total[:, None]), column, here)
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        softmax, column, here = ctx.saved_tensors
        gradient = softmax.scatter_add(1, column, -here.to(softmax.dtype)[:, None])
        return gradient.mul_(cotangent * dist.get_world_size() / len(column)), None, None


class _AllWords(torch.autograd.Function):  # type: ignore[misc]
    """Logits of all words: [M, V / N] -> [M, V]. All ranks go on alike, so the backward needs no call."""

    @staticmethod
    def forward(_ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        return all_gather(logits[None]).transpose(0, 1).flatten(1)

    @staticmethod
    def backward(_ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.chunk(dist.get_world_size(), 1)[dist.get_rank()] * dist.get_world_size()


def _in_parts(logits: torch.Tensor, targets: torch.Tensor, *, stacked: bool) -> torch.Tensor:
    return _Entropy.apply(logits, targets, stacked)


def _of_all_words(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(_AllWords.apply(logits), targets)


ENTROPIES: dict[str, Entropy] = {
    "three": partial(_in_parts, stacked=False),
    "two": partial(_in_parts, stacked=True),
    "logits": _of_all_words,
}
"""By the setting of an arm: all_reduces, or logits gathered."""


def spread_loss(
    entropy: Entropy, hidden: torch.Tensor, targets: torch.Tensor, head: torch.Tensor
) -> torch.Tensor:
    """Return the mean loss over all ranks' tokens.

    Args:
        hidden: [T, D] of this rank's tokens.
        targets: int64[N * T] of all ranks', rank after rank.
        head: [V / N, D], this rank's rows.
    """
    return entropy(functional.linear(gathered(hidden), head), targets)
