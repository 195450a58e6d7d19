"""A Llama-like transformer (Touvron et al. 2023) as pieces that run between collectives, and as a whole.

It trains on bytes of text. A block has two sublayers, attention and MLP; each adds to the residual stream what it
makes of the stream's RMSNorm. `Pieces` holds one rank's share: with tensor parallelism (Megatron-LM, Shoeybi et al.
2019) its heads and its hidden channels, so that what a sublayer gives is a partial sum; norms, embedding and head
are replicated.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial

import torch
from torch.nn import functional

from overlayccl_core.training import pieces, text
from overlayccl_core.training.data_parallel import DataParallelStep, Stage
from overlayccl_core.training.pieces import Step
from overlayccl_core.training.segments import Tensor
from overlayccl_core.training.tensor_parallel import TensorParallelStep
from overlayccl_core.workloads.llama import Model, Parallelism

ROTARY_BASE = 10_000.0  # Su et al. 2021
ROWS = {"query_key_value": 3, "gate_up": 2}  # matrices in one; each is sharded by rows (outputs)
COLUMNS = ("output", "down")
ATTENTION = ("attention_norm", "query_key_value", "output")
MLP = ("mlp_norm", "gate_up", "down")
HALVES = 2  # sublayers of a block
VALIDATION_BATCHES = 8


class Pieces(pieces.Pieces[Model]):
    """One rank's parameters and the functions between collectives."""

    def __init__(self, model: Model, full: Mapping[str, Tensor], rank: int = 0, ranks: int = 1) -> None:
        super().__init__(model, full, rank, ranks)
        self.sublayers = HALVES * model.layers
        self.heads = model.heads // _parts(model, ranks)

    @staticmethod
    def full_parameters(model: Model, seed: int) -> dict[str, Tensor]:
        """name -> initial value, the same on every rank."""
        random = torch.Generator().manual_seed(seed)
        parameters = {}
        for name, shape in model.parameter_sizes():
            if len(shape) == 1:
                parameters[name] = torch.ones(shape)
            elif name == "embedding":
                parameters[name] = torch.randn(shape, generator=random)
            else:
                parameters[name] = torch.randn(shape, generator=random) / shape[1] ** 0.5
        return parameters

    @staticmethod
    def shard(model: Model, name: str, full: Tensor, rank: int, ranks: int) -> Tensor:
        """What one rank of a tensor-parallel group holds of a parameter (or of its gradient)."""
        parts, kind = _parts(model, ranks), name.rpartition(".")[2]
        if parts > 1 and kind in ROWS:
            each = full.view(ROWS[kind], -1, full.shape[1])
            return each.chunk(parts, 1)[rank].reshape(-1, full.shape[1])
        return full.chunk(parts, 1)[rank] if parts > 1 and kind in COLUMNS else full

    @staticmethod
    def batch(model: Model, *, seed: int, step: int, replica: int) -> Tensor:
        """int64[batch, sequence + 1]: bytes of text."""
        return text.batch(
            text.of(model.corpus).train,
            seed=seed,
            step=step,
            replica=replica,
            shape=(model.batch, model.sequence),
        )

    def held_out(self) -> Sequence[Tensor]:
        """Text that is not trained on; a tensor-parallel rank has a part of the model only."""
        if self.model.parallelism is Parallelism.TENSOR:
            return ()
        held_out, shape = text.of(self.model.corpus).validation, (self.model.batch, self.model.sequence)
        return [
            text.batch(held_out, seed=0, step=k, replica=0, shape=shape) for k in range(VALIDATION_BATCHES)
        ]

    def step(self, batches: Sequence[Tensor], *, early: bool) -> Step:
        """Cut at sums over ranks where blocks are sharded, else at gradients."""
        if self.model.parallelism is Parallelism.TENSOR:
            return TensorParallelStep(self, batches)
        return DataParallelStep(self, batches, in_stages=early)

    def stages(self) -> Sequence[Stage]:
        """The embedding, the blocks, and norm and head with the loss."""
        blocks = [
            Stage(
                parameters=tuple(name for k in range(first, first + HALVES) for name in self.names_of(k)),
                run=partial(self._block, first),
            )
            for first in range(0, self.sublayers, HALVES)
        ]
        return [
            Stage(parameters=("embedding",), run=lambda _, batch: self.enter(batch)),
            *blocks,
            Stage(parameters=("norm", "head"), run=self.loss),
        ]

    def names_of(self, sublayer: int) -> tuple[str, ...]:
        """The parameters that a sublayer uses, in the order of `parameters`."""
        block, second = divmod(sublayer, 2)
        return tuple(f"blocks.{block}.{kind}" for kind in (MLP if second else ATTENTION))

    def enter(self, batch: Tensor) -> Tensor:
        """int64[B, S + 1] -> float32[B, S, D]: all but the last byte, which has no next one."""
        return functional.embedding(batch[:, :-1], self.parameters["embedding"])

    def normed(self, sublayer: int, x: Tensor) -> Tensor:
        """The RMSNorm in front of a sublayer."""
        block, second = divmod(sublayer, 2)
        name = f"blocks.{block}.{'mlp_norm' if second else 'attention_norm'}"
        return functional.rms_norm(x, (self.model.width,), self.parameters[name])

    def partial(self, sublayer: int, h: Tensor) -> Tensor:
        """[B, S, D] -> [B, S, D]: this rank's part of what a sublayer adds."""
        block, second = divmod(sublayer, 2)
        return self._mlp(block, h) if second else self._attention(block, h)

    def loss(self, x: Tensor, batch: Tensor) -> Tensor:
        """Mean cross-entropy of the next byte, in nats a byte."""
        normed = functional.rms_norm(x, (self.model.width,), self.parameters["norm"])
        logits = functional.linear(normed, self.parameters["head"])
        return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def whole(self, batch: Tensor) -> Tensor:
        """The loss of int64[B, S + 1] without any collective: the whole model on one rank."""
        x = self.enter(batch)
        for first in range(0, self.sublayers, HALVES):
            x = self._block(first, x, batch)
        return self.loss(x, batch)

    def _block(self, first: int, x: Tensor, _batch: Tensor) -> Tensor:
        for sublayer in range(first, first + HALVES):
            x = x + self.partial(sublayer, self.normed(sublayer, x))
        return x

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


def _parts(model: Model, ranks: int) -> int:
    """Over how many ranks a block is spread."""
    return ranks if model.parallelism is Parallelism.TENSOR else 1


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
