"""A Llama-like transformer (Touvron et al. 2023) as pieces that run between collectives, and as a whole.

A block has two sublayers, attention and MLP; each adds to the residual stream what it makes of the stream's
RMSNorm. `Pieces` holds one rank's share: with tensor parallelism (Megatron-LM, Shoeybi et al. 2019) its heads and
its hidden channels, so that what a sublayer gives is a partial sum; norms, embedding and head are replicated.
"""

from functools import cache

import torch
from torch.nn import functional

from overlayccl_core.configuration.models import Model
from overlayccl_core.training.segments import Tensor
from overlayccl_core.workloads.llama import parameter_sizes

ROTARY_BASE = 10_000.0  # Su et al. 2021
ROWS = {"query_key_value": 3, "gate_up": 2}  # matrices in one; each is sharded by rows (outputs)
COLUMNS = ("output", "down")
ATTENTION = ("attention_norm", "query_key_value", "output")
MLP = ("mlp_norm", "gate_up", "down")


def full_parameters(model: Model, seed: int) -> dict[str, Tensor]:
    """name -> initial value, the same on every rank."""
    random = torch.Generator().manual_seed(seed)
    sizes = parameter_sizes(
        width=model.width, hidden=model.hidden, layers=model.layers, vocabulary=model.vocabulary
    )
    found = {}
    for name, shape in sizes:
        if len(shape) == 1:
            found[name] = torch.ones(shape)
        elif name == "embedding":
            found[name] = torch.randn(shape, generator=random)
        else:
            found[name] = torch.randn(shape, generator=random) / shape[1] ** 0.5
    return found


def shard(name: str, full: Tensor, rank: int, ranks: int) -> Tensor:
    """What one rank of a tensor-parallel group holds of a parameter (or of its gradient)."""
    kind = name.rpartition(".")[2]
    if kind in ROWS:
        each = full.view(ROWS[kind], -1, full.shape[1])
        return each.chunk(ranks, 1)[rank].reshape(-1, full.shape[1])
    return full.chunk(ranks, 1)[rank] if kind in COLUMNS else full


class Pieces:
    """One rank's parameters and the functions between collectives."""

    def __init__(self, model: Model, parameters: dict[str, Tensor], rank: int = 0, ranks: int = 1) -> None:
        self.model = model
        self.sublayers = 2 * model.layers
        self.heads = model.heads // ranks
        self.parameters = {
            name: shard(name, full, rank, ranks).clone().requires_grad_() for name, full in parameters.items()
        }

    def names_of(self, sublayer: int) -> tuple[str, ...]:
        """The parameters that a sublayer uses, in the order of `parameters`."""
        block, second = divmod(sublayer, 2)
        return tuple(f"blocks.{block}.{kind}" for kind in (MLP if second else ATTENTION))

    def embed(self, tokens: Tensor) -> Tensor:
        """int64[B, S] -> float32[B, S, D]."""
        return functional.embedding(tokens, self.parameters["embedding"])

    def normed(self, sublayer: int, x: Tensor) -> Tensor:
        """The RMSNorm in front of a sublayer."""
        block, second = divmod(sublayer, 2)
        name = f"blocks.{block}.{'mlp_norm' if second else 'attention_norm'}"
        return functional.rms_norm(x, (self.model.width,), self.parameters[name])

    def partial(self, sublayer: int, h: Tensor) -> Tensor:
        """[B, S, D] -> [B, S, D]: this rank's part of what a sublayer adds."""
        block, second = divmod(sublayer, 2)
        return self._mlp(block, h) if second else self._attention(block, h)

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy, in nats a byte."""
        normed = functional.rms_norm(x, (self.model.width,), self.parameters["norm"])
        logits = functional.linear(normed, self.parameters["head"])
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def whole(self, tokens: Tensor) -> Tensor:
        """The loss of int64[B, S + 1] without any collective: the whole model on one rank."""
        x = self.embed(tokens[:, :-1])
        for sublayer in range(self.sublayers):
            x = x + self.partial(sublayer, self.normed(sublayer, x))
        return self.loss(x, tokens[:, 1:])

    def _attention(self, block: int, h: Tensor) -> Tensor:
        batch, sequence, _ = h.shape
        joined = functional.linear(h, self.parameters[f"blocks.{block}.query_key_value"])
        apart = joined.view(batch, sequence, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = _rotated(apart[:2])
        mixed = functional.scaled_dot_product_attention(q, k, apart[2], is_causal=True)
        merged = mixed.transpose(1, 2).reshape(batch, sequence, -1)
        return functional.linear(merged, self.parameters[f"blocks.{block}.output"])

    def _mlp(self, block: int, h: Tensor) -> Tensor:
        gate, up = functional.linear(h, self.parameters[f"blocks.{block}.gate_up"]).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, self.parameters[f"blocks.{block}.down"])


@cache
def _rotation(sequence: int, channels: int) -> Tensor:
    """complex64[sequence, channels / 2]: exp(i * position * frequency)."""
    frequency = ROTARY_BASE ** (-torch.arange(0, channels, 2) / channels)
    angle = torch.arange(sequence)[:, None] * frequency
    return torch.polar(torch.ones_like(angle), angle)


def _rotated(x: Tensor) -> Tensor:
    """[..., sequence, channels]: each pair of channels turned by its position."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * _rotation(x.shape[-2], x.shape[-1])).flatten(-2)
