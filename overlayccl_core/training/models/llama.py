"""A Llama-like transformer (Touvron et al. 2023), as pieces between collectives and as a whole.

It trains on bytes or tokens of text. A block has two sublayers, attention and MLP; each reads the RMSNorm of the
residual stream and adds its result to the stream. A parallel block is one sublayer with two parts. `Pieces` holds
one rank's share: with tensor parallelism (Megatron-LM, Shoeybi et al. 2019) its heads and its hidden channels, so a
part returns a partial sum; norms, embedding and head are replicated. With sharded parameters (FSDP), a block has
one flat parameter `blocks.<k>`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from math import prod

import torch
from torch.nn import functional

from overlayccl_core.training import pieces, pipeline_parallel, sharded, tensor_parallel, text
from overlayccl_core.training.data_parallel import ChainStage, DataParallelStep
from overlayccl_core.training.pieces import Module, TrainingStep
from overlayccl_core.training.segments import Tensor
from overlayccl_core.workloads.llama import NORMS, STAGES, Block, Model, Parallelism

ROTARY_BASE = 10_000.0  # Su et al. 2021
ROWS = {"query_key_value": 3, "gate_up": 2}  # matrices in one; each is sharded by rows (outputs)
COLUMNS = ("output", "down")
PARTS = {"attention": ("query_key_value", "output"), "mlp": ("gate_up", "down")}
SUBLAYERS = {Block.SEQUENTIAL: (("attention",), ("mlp",)), Block.PARALLEL: (("attention", "mlp"),)}
VALIDATION_BATCHES = 8


class Pieces(pieces.Pieces[Model]):
    """One rank's parameters and the functions between collectives."""

    def __init__(
        self, model: Model, full: Mapping[str, Tensor], rank: int = 0, ranks: int = 1, device: str = "cpu"
    ) -> None:
        super().__init__(model, full, rank, ranks, device)
        self.norms, self.sublayers_of_block = NORMS[model.block], SUBLAYERS[model.block]
        self.sublayers = len(self.norms) * model.layers
        self.parts = len(self.sublayers_of_block[0])
        self.units: Sequence[str] = [name for name in full if _is_flat(model, name)]
        self.heads = model.heads // _parts(model, ranks)
        self.is_first = not _stage(rank, ranks)
        self.read_by: Callable[[Tensor, Tensor], Tensor] = (
            functional.linear
        )  # multiplies the input of a sublayer's part by its weight

    @staticmethod
    def full_parameters(model: Model, seed: int) -> dict[str, Tensor]:
        """Return name -> initial value, the same on every rank."""
        random = torch.Generator().manual_seed(seed)
        parameters = {}
        for name, shape in model.parameter_sizes():
            if len(shape) == 1:
                parameters[name] = torch.ones(shape)
            elif name == "embedding":
                parameters[name] = torch.randn(shape, generator=random)
            else:
                parameters[name] = torch.randn(shape, generator=random) / shape[1] ** 0.5
        return _flattened(model, parameters) if model.parallelism is Parallelism.SHARDED else parameters

    @staticmethod
    def shard(model: Model, name: str, full: Tensor, rank: int, ranks: int) -> Tensor | None:
        """Return a rank's heads and channels of a parameter (or of its gradient), or its rows of a flat one.

        On a stage of a pipeline: all of it, or None.
        """
        if model.parallelism is Parallelism.PIPELINE and ranks > 1:
            stage = _stage(rank, ranks)
            return full if name in (one.names[stage] for one in model.averaged()) else None
        if _is_flat(model, name):
            return full.chunk(ranks)[rank]
        parts, kind = _parts(model, ranks), name.rpartition(".")[2]
        if parts > 1 and kind in ROWS:
            each = full.view(ROWS[kind], -1, full.shape[1])
            return each.chunk(parts, 1)[rank].reshape(-1, full.shape[1])
        return full.chunk(parts, 1)[rank] if parts > 1 and kind in COLUMNS else full

    @staticmethod
    def batch(model: Model, *, seed: int, step: int, replica: int) -> Tensor:
        """Draw int64[batch, sequence + 1]: tokens of text."""
        return text.batch(
            text.of(model.corpus, model.tokenizer).train,
            seed=seed,
            step=step,
            replica=replica,
            shape=(model.batch, model.sequence),
        )

    def held_out(self) -> Sequence[Tensor]:
        """Return validation batches; none if a rank has only a part of the model."""
        if self.model.parallelism is not Parallelism.DATA:
            return ()
        held_out = text.of(self.model.corpus, self.model.tokenizer).validation
        shape = (self.model.batch, self.model.sequence)
        return [
            text.batch(held_out, seed=0, step=k, replica=0, shape=shape) for k in range(VALIDATION_BATCHES)
        ]

    def step(self, batches: Sequence[Tensor], *, early: bool) -> TrainingStep:
        """Return a step cut at sums over ranks, gathers of blocks, transfers between stages, or gradients."""
        if self.model.parallelism is Parallelism.PIPELINE:
            return self._pipeline_step(batches)
        if self.model.parallelism is Parallelism.TENSOR:
            return tensor_parallel.TensorParallelStep(self, batches)
        if self.model.parallelism is Parallelism.SHARDED:
            return sharded.ShardedStep(self, batches)
        return DataParallelStep(self, batches, in_stages=early)

    def _pipeline_step(self, batches: Sequence[Tensor]) -> pipeline_parallel.PipelineStep:
        stage = _stage(self.rank, self.ranks)
        averaged = [(one.names[stage], one.elements) for one in self.model.averaged()]
        return pipeline_parallel.PipelineStep(
            self,
            batches,
            shape=self.handed_over(batches[0]),
            averaged=averaged if self.ranks > STAGES else (),
        )

    def first(self, batch: Tensor) -> Tensor:
        """Run the first stage of a pipeline, half of the blocks: int64[B, S + 1] -> float32[B, S, D]."""
        return self._blocks(range(self.model.layers // STAGES), self.enter(batch))

    def second(self, x: Tensor, batch: Tensor) -> Tensor:
        """Run the second stage of a pipeline on the first's output; return the loss."""
        return self.loss(self.last(x), batch)

    def module(self) -> Module:
        """Return the model, or a pipeline's stage, as a torch module; a sharded one has a module for each block."""
        of = {
            Parallelism.SHARDED: sharded.ModuleChain,
            Parallelism.PIPELINE: pipeline_parallel.OneStage,
            Parallelism.TENSOR: tensor_parallel.Summing,
        }
        return of.get(self.model.parallelism, Module)(self)

    def stages(self) -> Sequence[ChainStage]:
        """Return the embedding, the blocks, and norm and head with the loss."""
        blocks = [
            ChainStage(parameters=tuple(self.names_of_block(k)), run=partial(self._block, k))
            for k in range(self.model.layers)
        ]
        return [
            ChainStage(parameters=("embedding",), run=lambda _, batch: self.enter(batch)),
            *blocks,
            ChainStage(parameters=("norm", "head"), run=self.loss),
        ]

    def weights_of(self, block: int) -> Mapping[str, Tensor]:
        """Return kind -> parameter of a block."""
        if self.model.parallelism is Parallelism.SHARDED:
            return _apart(self.model, self.parameters[f"blocks.{block}"])
        names = self.names_of_block(block)
        return {name.rpartition(".")[2]: self.parameters[name] for name in names}

    def unit(self, k: int, weight: Tensor, x: Tensor) -> Tensor:
        """Run block k with its whole flat parameter: [B, S, D] -> [B, S, D]."""
        return self._added(_apart(self.model, weight), x)

    def names_of(self, sublayer: int) -> tuple[str, ...]:
        """Return the names of a sublayer's parameters, in the order of `parameters`."""
        block, k = divmod(sublayer, len(self.norms))
        kinds = (kind for part in self.sublayers_of_block[k] for kind in PARTS[part])
        return tuple(f"blocks.{block}.{kind}" for kind in (self.norms[k], *kinds))

    def names_of_block(self, block: int) -> list[str]:
        """Return the names of a block's parameters."""
        each = len(self.norms)
        return [name for k in range(each * block, each * (block + 1)) for name in self.names_of(k)]

    def enter(self, batch: Tensor) -> Tensor:
        """Embed all tokens but the last, without a next one: int64[B, S + 1] -> float32[B, S, D]."""
        return functional.embedding(batch[:, :-1], self.parameters["embedding"])

    def normed(self, sublayer: int, x: Tensor) -> Tensor:
        """Apply the RMSNorm in front of a sublayer."""
        block, k = divmod(sublayer, len(self.norms))
        return self._normed(self.weights_of(block), k, x)

    def partial(self, sublayer: int, h: Tensor, part: int = 0) -> Tensor:
        """Compute this rank's share of the output of a sublayer's part: [B, S, D] -> [B, S, D]."""
        block, k = divmod(sublayer, len(self.norms))
        return self._partial(self.weights_of(block), self.sublayers_of_block[k][part], h)

    def handed_over(self, batch: Tensor) -> tuple[int, ...]:
        """Return the shape [B, S, D] of the first stage's output for int64[B, S + 1]."""
        return len(batch), self.model.sequence, self.model.width

    def last(self, x: Tensor) -> Tensor:
        """Run the second half of the blocks."""
        return self._blocks(range(self.model.layers // STAGES, self.model.layers), x)

    def loss(self, x: Tensor, batch: Tensor) -> Tensor:
        """Return the mean cross-entropy of the next token, in nats a token."""
        normed = functional.rms_norm(x, (self.model.width,), self.parameters["norm"])
        logits = functional.linear(normed, self.parameters["head"])
        return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def whole(self, batch: Tensor) -> Tensor:
        """Return the loss of int64[B, S + 1] without any collective: the whole model on one rank."""
        return self.loss(self._blocks(range(self.model.layers), self.enter(batch)), batch)

    def _blocks(self, blocks: Iterable[int], x: Tensor) -> Tensor:
        for k in blocks:
            x = self._block(k, x, None)
        return x

    def _block(self, k: int, x: Tensor, _batch: Tensor | None) -> Tensor:
        return self._added(self.weights_of(k), x)

    def _added(self, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The output of a block."""
        for k, parts in enumerate(self.sublayers_of_block):
            h = self._normed(weights, k, x)
            for part in parts:
                x = x + self._partial(weights, part, h)
        return x

    def _normed(self, weights: Mapping[str, Tensor], k: int, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.model.width,), weights[self.norms[k]])

    def _partial(self, weights: Mapping[str, Tensor], part: str, h: Tensor) -> Tensor:
        return self._mlp(weights, h) if part == "mlp" else self._attention(weights, h)

    def _attention(self, weights: Mapping[str, Tensor], h: Tensor) -> Tensor:
        batch, sequence, _ = h.shape
        joined = self.read_by(h, weights["query_key_value"])
        width = joined.shape[-1] // 3
        turned, values = joined.split((2 * width, width), -1)
        turned = _rotated(turned, width // self.heads)
        q, k = turned.view(batch, sequence, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        v = values.view(batch, sequence, self.heads, -1).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        merged = mixed.transpose(1, 2).reshape(batch, sequence, -1)
        return functional.linear(merged, weights["output"])

    def _mlp(self, weights: Mapping[str, Tensor], h: Tensor) -> Tensor:
        gate, up = self.read_by(h, weights["gate_up"]).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, weights["down"])


def _parts(model: Model, ranks: int) -> int:
    """The number of ranks sharing a block."""
    return ranks if model.parallelism is Parallelism.TENSOR else 1


def _stage(rank: int, ranks: int) -> int:
    """The pipeline stage of a rank: 0 or 1."""
    return rank * STAGES // ranks


def _is_flat(model: Model, name: str) -> bool:
    """Whether `name` is the flat parameter of a block."""
    return model.parallelism is Parallelism.SHARDED and name.startswith("blocks.")


def _flattened(model: Model, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of each block as one, [rows, width], padded with zeros."""
    flat: dict[str, list[Tensor]] = {}
    for name, value in parameters.items():
        flat.setdefault(name.rpartition(".")[0] or name, []).append(value)
    padded = model.flat_rows() * model.width

    def joined(values: list[Tensor]) -> Tensor:
        elements = torch.cat([value.flatten() for value in values])
        return functional.pad(elements, (0, padded - len(elements))).view(-1, model.width)

    return {name: joined(values) if name not in parameters else values[0] for name, values in flat.items()}


def _apart(model: Model, flat: Tensor) -> dict[str, Tensor]:
    """kind -> parameter of a block: views of its flat one."""
    kinds = [(name, shape) for name, shape in model.parameter_sizes() if name.startswith("blocks.0.")]
    sizes = [prod(shape) for _, shape in kinds]
    parts = flat.flatten().split([*sizes, flat.numel() - sum(sizes)])
    return {
        name.rpartition(".")[2]: part.view(shape) for (name, shape), part in zip(kinds, parts, strict=False)
    }


@cache
def _rotation(sequence: int, channels: int, heads: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """float32[sequence, heads * channels] each: the factors of a channel and of the other one of its pair.

    Cosine and sine of position * frequency; the first of a pair takes the other with a minus.
    """
    frequency = ROTARY_BASE ** (-torch.arange(0, channels, 2) / channels)
    angle = torch.arange(sequence)[:, None] * frequency
    turn = torch.polar(torch.ones_like(angle), angle)
    own, others = (torch.stack(pair, -1) for pair in ((turn.real, turn.real), (-turn.imag, turn.imag)))
    return tuple(one.flatten(-2).repeat(1, heads).to(device) for one in (own, others))


def _rotated(x: Tensor, channels: int) -> Tensor:
    """Rotate each pair of a head's channels by its position: [..., sequence, heads * channels].

    This multiplies complex numbers in real arithmetic: compilers for accelerators take no other. All heads are in
    one row, as kernels are slow at rows of few channels.
    """
    own, others = _rotation(x.shape[-2], channels, x.shape[-1] // channels, x.device)
    return x * own + x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * others
