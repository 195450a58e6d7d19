"""A Llama-like transformer (Touvron et al. 2023), as pieces between collectives and as a whole.

It trains on bytes or tokens of text. A block has two sublayers, attention and MLP; each reads the RMSNorm of the
residual stream and adds its result to the stream. A parallel block is one sublayer with two parts. `Pieces` holds
one rank's share: with tensor parallelism (Megatron-LM, Shoeybi et al. 2019) its heads and its hidden channels, so a
part returns a partial sum; norms, embedding and head are replicated. With sharded parameters (FSDP), a block has
one flat parameter `blocks.<k>`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod

import torch
from torch.nn import functional

from overlayccl_core.training import (
    context_parallel,
    pieces,
    pipeline_parallel,
    sharded,
    tensor_parallel,
    text,
    transformer,
)
from overlayccl_core.training.data_parallel import ChainStage, DataParallelStep
from overlayccl_core.training.pieces import Module, TrainingStep
from overlayccl_core.training.segments import Tensor
from overlayccl_core.workloads.llama import NORMS, Block, Model, Parallelism
from overlayccl_core.workloads.spreads.pipeline import STAGES, averaged
from overlayccl_core.workloads.spreads.sharded import flat_rows

ROWS = {"query_key_value": 3, "gate_up": 2}  # matrices in one; each is sharded by rows (outputs)
COLUMNS = ("output", "down")
PARTS = {"attention": ("query_key_value", "output"), "mlp": ("gate_up", "down")}
SUBLAYERS = {Block.SEQUENTIAL: (("attention",), ("mlp",)), Block.PARALLEL: (("attention", "mlp"),)}
MODULES: Mapping[Parallelism, type[Module]] = {
    Parallelism.TENSOR: tensor_parallel.Summing,
    Parallelism.DATA: Module,
    Parallelism.PIPELINE: pipeline_parallel.OneStage,
    Parallelism.SHARDED: sharded.ModuleChain,
    Parallelism.CONTEXT: context_parallel.SpreadAttention,
}
CONTEXT: Mapping[str, Callable[..., TrainingStep]] = {
    "keys": context_parallel.GatheredKeysStep,
    "ring": context_parallel.RingStep,
    "attention": context_parallel.AttentionStep,
}


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
        self.blocks = model.layers
        self.positions = model.spread.positions(model, ranks)
        self.first_position = rank * self.positions if self.positions < model.sequence else 0
        if model.exchange == "attention":
            self.exchanged_kernels = ("aten._scaled_dot_product",)
        self.is_first = not _stage(rank, ranks)
        self.read_by: Callable[[Tensor, Tensor], Tensor] = (
            functional.linear
        )  # multiplies the input of a sublayer's part by its weight

    @staticmethod
    def full_parameters(model: Model, seed: int) -> dict[str, Tensor]:
        """Return name -> initial value, the same on every rank."""
        parameters = transformer.initial(model.parameter_sizes(), seed, unscaled="embedding")
        return _flattened(model, parameters) if model.parallelism is Parallelism.SHARDED else parameters

    @staticmethod
    def shard(model: Model, name: str, full: Tensor, rank: int, ranks: int) -> Tensor | None:
        """Return a rank's heads and channels of a parameter (or of its gradient), or its rows of a flat one.

        On a stage of a pipeline: all of it, or None.
        """
        if model.parallelism is Parallelism.PIPELINE and ranks > 1:
            stage = _stage(rank, ranks)
            return full if name in (one.names[stage] for one in averaged(model)) else None
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
        return text.batch_of(model, seed=seed, step=step, replica=replica)

    def held_out(self) -> Sequence[Tensor]:
        """Return validation batches; none if a rank has only a part of the model."""
        return text.held_out(self.model) if self.model.spread.has_whole_models else ()

    def step(self, batches: Sequence[Tensor], *, early: bool) -> TrainingStep:
        """Return the step of the parallelism: cut where its ranks exchange something."""
        match self.model.parallelism:
            case Parallelism.TENSOR:
                return tensor_parallel.TensorParallelStep(self, batches)
            case Parallelism.DATA:
                return DataParallelStep(self, batches, in_stages=early)
            case Parallelism.PIPELINE:
                return self._pipeline_step(batches)
            case Parallelism.SHARDED:
                return sharded.ShardedStep(self, batches)
            case Parallelism.CONTEXT:
                return CONTEXT[self.model.exchange or "keys"](self, batches)

    def _pipeline_step(self, batches: Sequence[Tensor]) -> pipeline_parallel.PipelineStep:
        stage = _stage(self.rank, self.ranks)
        of_stage = [(one.names[stage], one.elements) for one in averaged(self.model)]
        return pipeline_parallel.PipelineStep(
            self,
            batches,
            shape=self.handed_over(batches[0]),
            averaged=of_stage if self.ranks > STAGES else (),
        )

    def first(self, batch: Tensor) -> Tensor:
        """Run the first stage of a pipeline, half of the blocks: int64[B, S + 1] -> float32[B, S, D]."""
        return self._blocks(range(self.model.layers // STAGES), self.enter(batch))

    def second(self, x: Tensor, batch: Tensor) -> Tensor:
        """Run the second stage of a pipeline on the first's output; return the loss."""
        return self.loss(self.last(x), batch)

    def module(self) -> Module:
        """Return the model, or a rank's part of it, as the torch module of the parallelism."""
        return MODULES[self.model.parallelism](self)

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

    def own(self, batch: Tensor) -> Tensor:
        """Return this rank's positions of each text, and the one behind: int64[B, S + 1] -> int64[B, S / N + 1]."""
        return batch[:, self.first_position : self.first_position + self.positions + 1]

    def opened(self, k: int, x: Tensor) -> tuple[Tensor, ...]:
        """Run block k up to its attention: [B, S / N, D] -> the same, and queries, keys, values of each head."""
        return self._opened(self.weights_of(k), x, self.first_position)

    def attended(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return attention to all keys, of own queries or all: [B, H, P, D], twice [B, H, S, D] -> [B, H, P, D]."""
        return transformer.attended(q, keys, values, self.first_position)

    def closed(self, k: int, x: Tensor, mixed: Tensor) -> Tensor:
        """Run block k behind its attention."""
        return self._closed(self.weights_of(k), x, mixed)

    def stretch_of(self, parameter: str) -> int:
        """Return how many attentions are in front of a parameter."""
        if not parameter.startswith("blocks."):
            return 0 if parameter == "embedding" else self.blocks
        _, block, kind = parameter.split(".")
        beside = (kind for part in self.sublayers_of_block[0][1:] for kind in PARTS[part])
        is_in_front = kind in (self.norms[0], "query_key_value", *beside)
        return int(block) + (not is_in_front)

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
        x, *heads = self._opened(weights, x)
        return self._closed(weights, x, transformer.attended(*heads))

    def _opened(self, weights: Mapping[str, Tensor], x: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        """The residual stream and all that attention reads: queries, keys, values of positions from `first` on.

        What stands beside attention is added already.
        """
        h = self._normed(weights, 0, x)
        for part in self.sublayers_of_block[0][1:]:
            x = x + self._partial(weights, part, h)
        return x, *self._projected(weights, h, first)

    def _closed(self, weights: Mapping[str, Tensor], x: Tensor, mixed: Tensor) -> Tensor:
        """The output of a block from that of its attention."""
        x = x + self._output(weights, mixed)
        for k, parts in enumerate(self.sublayers_of_block[1:], 1):
            h = self._normed(weights, k, x)
            for part in parts:
                x = x + self._partial(weights, part, h)
        return x

    def _normed(self, weights: Mapping[str, Tensor], k: int, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.model.width,), weights[self.norms[k]])

    def _partial(self, weights: Mapping[str, Tensor], part: str, h: Tensor) -> Tensor:
        if part == "mlp":
            return self._mlp(weights, h)
        return self._output(weights, transformer.attended(*self._projected(weights, h)))

    def _projected(
        self, weights: Mapping[str, Tensor], h: Tensor, first: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of this rank's heads."""
        return transformer.by_heads(self.read_by(h, weights["query_key_value"]), self.heads, first)

    def _output(self, weights: Mapping[str, Tensor], mixed: Tensor) -> Tensor:
        return functional.linear(transformer.side_by_side(mixed), weights["output"])

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
    padded = flat_rows(model) * model.width

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
