"""What transformers have in common: initial values, and causal attention with rotary positions."""

from collections.abc import Iterable
from functools import cache

import torch
from torch.nn import functional

from overlayccl_core.configuration.models import Shape
from overlayccl_core.training.segments import Tensor

ROTARY_BASE = 10_000.0  # Su et al. 2021


def initial(sizes: Iterable[tuple[str, Shape]], seed: int, *, unscaled: str) -> dict[str, Tensor]:
    """Return name -> initial value: ones of a vector; else normal, by the root of the last axis, the inputs.

    Args:
        unscaled: A table that is looked up: it has no inputs.
    """
    random = torch.Generator().manual_seed(seed)
    parameters = {}
    for name, shape in sizes:
        if len(shape) == 1:
            parameters[name] = torch.ones(shape)
        else:
            drawn = torch.randn(shape, generator=random)
            parameters[name] = drawn if name == unscaled else drawn / shape[-1] ** 0.5
    return parameters


def attention(joined: Tensor, heads: int) -> Tensor:
    """Mix values over the positions before; queries, keys, values: [B, S, 3 * H * D] -> [B, S, H * D]."""
    return side_by_side(attended(*by_heads(joined, heads)))


def by_heads(joined: Tensor, heads: int, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries and keys, turned by their positions, and values: [B, S, 3 * H * D] -> [B, H, S, D] each.

    Args:
        first: The first of the positions.
    """
    batch, sequence, _ = joined.shape
    width = joined.shape[-1] // 3
    turned, values = joined.split((2 * width, width), -1)
    turned = rotated(turned, width // heads, first)
    q, k = turned.view(batch, sequence, 2, heads, -1).permute(2, 0, 3, 1, 4)
    return q, k, values.view(batch, sequence, heads, -1).transpose(1, 2)


def attended(q: Tensor, keys: Tensor, values: Tensor, first: int = 0) -> Tensor:
    """Return for each query the values up to its own position, weighted: [B, H, P, D] of P queries.

    Args:
        keys, values: [B, H, S, D], of all positions.
        first: Position of the first query. Nothing is skipped for it: all ranks multiply the same shapes.
    """
    if q.shape[2] == keys.shape[2]:
        return functional.scaled_dot_product_attention(q, keys, values, is_causal=True)
    mask = _up_to_itself(first, q.shape[2], keys.shape[2], q.device)
    return functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


@cache
def _up_to_itself(first: int, queries: int, keys: int, device: torch.device) -> Tensor:
    """bool[queries, keys]: whether a query, of positions from `first` on, looks at a key."""
    return (torch.arange(keys) <= torch.arange(first, first + queries)[:, None]).to(device)


def side_by_side(mixed: Tensor) -> Tensor:
    """Put the heads of a position beside one another: [B, H, S, D] -> [B, S, H * D]."""
    return mixed.transpose(1, 2).flatten(2)


def rotated(x: Tensor, channels: int, first: int = 0) -> Tensor:
    """Rotate each pair of a head's channels by its position, from `first` on: [..., sequence, heads * channels].

    This multiplies complex numbers in real arithmetic: compilers for accelerators take no other. All heads are in
    one row, as kernels are slow at rows of few channels.
    """
    own, others = _rotation(first, x.shape[-2], channels, x.shape[-1] // channels, x.device)
    return x * own + x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * others


@cache
def _rotation(
    first: int, sequence: int, channels: int, heads: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """float32[sequence, heads * channels] each: the factors of a channel and of the other one of its pair.

    Cosine and sine of position * frequency, of positions from `first` on; the first of a pair takes the other with
    a minus.
    """
    frequency = ROTARY_BASE ** (-torch.arange(0, channels, 2) / channels)
    angle = torch.arange(first, first + sequence)[:, None] * frequency
    turn = torch.polar(torch.ones_like(angle), angle)
    own, others = (torch.stack(pair, -1) for pair in ((turn.real, turn.real), (-turn.imag, turn.imag)))
    return tuple(one.flatten(-2).repeat(1, heads).to(device) for one in (own, others))
