"""A residual model small enough to be written out by a script: parameters, their shards, and its gradients."""

import torch
from torch.nn import functional

WIDTH, HIDDEN, TOKENS = 8, 16, 4
SHAPE = (1, TOKENS, WIDTH)


def full_parameters(layers: int) -> list[dict[str, torch.Tensor]]:
    """Of every layer, the same on all ranks."""
    random = torch.Generator().manual_seed(1)
    return [
        {
            "norm": 1 + 0.1 * torch.randn(WIDTH, generator=random),
            "up": torch.randn(HIDDEN, WIDTH, generator=random) / WIDTH**0.5,
            "down": torch.randn(WIDTH, HIDDEN, generator=random) / HIDDEN**0.5,
        }
        for _ in range(layers)
    ]


def data(microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(inputs, targets) [microbatch, 1, tokens, width]."""
    random = torch.Generator().manual_seed(2)
    shape = (microbatches, *SHAPE)
    return torch.randn(shape, generator=random), torch.randn(shape, generator=random)


def shard(name: str, full: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """What one rank of a tensor-parallel group holds of a parameter (or of its gradient)."""
    part = slice(rank * HIDDEN // ranks, (rank + 1) * HIDDEN // ranks)
    return full if name == "norm" else full[part] if name == "up" else full[:, part]


def unsharded_gradients(layers: int, microbatches: int) -> list[dict[str, torch.Tensor]]:
    """Gradients of the mean loss over microbatches."""
    parameters = [{k: x.clone().requires_grad_() for k, x in p.items()} for p in full_parameters(layers)]
    xs, ys = data(microbatches)
    for x, y in zip(xs, ys, strict=True):
        for p in parameters:
            x = x + functional.linear(
                functional.silu(functional.linear(functional.rms_norm(x, (WIDTH,), p["norm"]), p["up"])),
                p["down"],
            )
        ((x - y).square().mean() / microbatches).backward()
    return [{k: x.grad for k, x in p.items() if x.grad is not None} for p in parameters]
