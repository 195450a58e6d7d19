"""A Llama-like transformer: its fields, the shapes of its parameters, the exchanges of its ranks in a step."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import prod
from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from overlayccl_core.configuration import models
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Shape, Site, Work
from overlayccl_core.configuration.text_models import TextModel
from overlayccl_core.measuring.frameworks import arms_of_framework, ddp_arm
from overlayccl_core.program.kinds import DType
from overlayccl_core.workloads.spreads.context import ContextSpread
from overlayccl_core.workloads.spreads.data import Data
from overlayccl_core.workloads.spreads.pipeline import STAGES, PipelineSpread
from overlayccl_core.workloads.spreads.sharded import Sharded
from overlayccl_core.workloads.spreads.spread import Spread
from overlayccl_core.workloads.spreads.tensor import Tensor


class Parallelism(StrEnum):
    """Ways to spread the model over its ranks."""

    TENSOR = "tensor"  # each block over all ranks (Megatron-LM); replicated embedding, norms and head
    DATA = "data"  # a whole model on every rank
    PIPELINE = "pipeline"  # half of the blocks on a rank of the first half, the rest on one of the second
    SHARDED = "sharded"  # the parameters of each block over all ranks, gathered to run it (FSDP)
    CONTEXT = "context"  # the positions of each text over all ranks, with whole models


class Block(StrEnum):
    """Input of an MLP."""

    SEQUENTIAL = "sequential"  # the sum with attention's output; a norm before each
    PARALLEL = "parallel"  # the input of attention, too (GPT-J, PaLM): one norm


SPREADS: Mapping[Parallelism, Spread] = {
    Parallelism.TENSOR: Tensor(),
    Parallelism.DATA: Data(),
    Parallelism.PIPELINE: PipelineSpread(),
    Parallelism.SHARDED: Sharded(),
    Parallelism.CONTEXT: ContextSpread(),
}
NORMS = {Block.SEQUENTIAL: ("attention_norm", "mlp_norm"), Block.PARALLEL: ("norm",)}  # of a block


def parameters_of(
    width: int, vocabulary: int, layers: int, block: Sequence[tuple[str, Shape]]
) -> tuple[tuple[str, Shape], ...]:
    """Return (name, shape) of the parameters of a transformer of equal blocks, in the order of the forward pass."""
    blocks = [(f"blocks.{layer}.{name}", shape) for layer in range(layers) for name, shape in block]
    table = (vocabulary, width)
    return (("embedding", table), *blocks, ("norm", (width,)), ("head", table))


def check_heads(width: int, heads: int) -> None:
    """Raise ValueError unless every head of rotary attention has an even width."""
    if width % (2 * heads):
        raise ValueError(
            f"heads of rotary attention need an even width (got {width} channels for {heads} heads): "
            f"make width a multiple of {2 * heads}"
        )


class Sizes(models.Sizes):
    """Widths of a Llama-like model.

    Touvron et al. 2023: RMSNorm before each half of a block, rotary attention without biases (as many key heads as
    query heads), SwiGLU of `hidden` channels, a final norm, a head separate from the embedding. Factors of the same
    input are one matrix, as in Megatron-LM: query, key and value; gate and up.
    """

    block: Block = Field(
        default=Block.SEQUENTIAL, description="sequential (MLP after attention, the default) or parallel"
    )
    width: Count = Field(description="channels of the residual stream")
    hidden: Count = Field(description="channels of an MLP")
    layers: Count = Field(description="blocks, each attention and MLP")
    vocabulary: Count = Field(description="number of tokens")

    def parameter_sizes(self) -> tuple[tuple[str, Shape], ...]:
        """Return (name, shape) of every parameter, in the order of the forward pass."""
        block = (
            (NORMS[self.block][0], (self.width,)),
            ("query_key_value", (3 * self.width, self.width)),
            ("output", (self.width, self.width)),
            *((norm, (self.width,)) for norm in NORMS[self.block][1:]),
            ("gate_up", (2 * self.hidden, self.width)),
            ("down", (self.width, self.hidden)),
        )
        return parameters_of(self.width, self.vocabulary, self.layers, block)

    def flops_of_text(self, tokens: int, sequence: int) -> int:
        """Return the operations of a step on so many tokens, in texts of `sequence`, forward and backward.

        Two for each element of a matrix and token, and twice as many in the backward pass; likewise for scores and
        weighted values of attention, each token with each (Narayanan et al. 2021, appendix).
        """
        looked_up = self.vocabulary * self.width  # the embedding multiplies nothing
        matrices = sum(prod(shape) for _, shape in self.parameter_sizes() if len(shape) > 1) - looked_up
        return 6 * tokens * (matrices + 2 * self.layers * sequence * self.width)


class Model(Sizes, TextModel):
    """A training step on text."""

    parallelism: Parallelism = Field(
        description="tensor (each block over all ranks), data (whole models), sharded (whole models, gathered), "
        "pipeline (two stages) or context (the positions of each text over all ranks)"
    )
    schedule: Literal["gpipe", "1f1b"] | None = Field(
        default=None,
        description="of a pipeline: gpipe (all microbatches may be under way) or 1f1b (two of them)",
    )
    exchange: Literal["keys", "ring", "attention"] | None = Field(
        default=None,
        description="of context parallelism: keys (and values, gathered; the default), ring (they go round, "
        "from each rank to the next) or attention (all of it: gathered, round a ring, or heads exchanged for "
        "positions)",
    )
    heads: Count = Field(description="attention heads")
    ddp_buckets_mib: tuple[PositiveFloat | tuple[PositiveFloat, ...], ...] = Field(
        default=(),
        description="bucket sizes of torch's own data parallelism (DDP), MiB, each an arm; a list gives "
        "each bucket its own, the last that of all others",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_heads(self.width, self.heads)
        if self.ddp_buckets_mib and self.parallelism is not Parallelism.DATA:
            raise ValueError("ddp_buckets_mib is of data parallelism: leave it out")
        if self.exchange is not None and self.parallelism is not Parallelism.CONTEXT:
            raise ValueError(
                f"exchange is of context parallelism and of no other (got {self.parallelism}): leave it out"
            )
        if (self.schedule is not None) is not (self.parallelism is Parallelism.PIPELINE):
            raise ValueError(
                f"schedule is of pipeline parallelism and of no other (got {self.schedule} and "
                f"{self.parallelism}): say gpipe or 1f1b for a pipeline, and leave it out elsewhere"
            )
        if self.parallelism is Parallelism.PIPELINE and self.layers % STAGES:
            raise ValueError(
                f"layers of a pipeline must be even, as each of two stages has half of them (got {self.layers}): "
                f"choose {self.layers + 1}"
            )
        return self

    def check(self, ranks: int) -> None:
        """Check the ranks (`Spread.check`) and the text.

        The corpus has enough for a batch; the tokenizer's tokens are among the model's.
        """
        self.check_text()
        self.spread.check(self, ranks)

    @property
    def spread(self) -> Spread:
        """How the model lies on its ranks."""
        return SPREADS[self.parallelism]

    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites of a step; the class of the parallelism tells them."""
        return self.spread.sites(self, microbatches, ranks)

    def work(self, microbatches: int, ranks: int) -> Work:
        """Return the work, in float32."""
        tokens = self.batch * self.sequence
        flops = self.flops_of_text(tokens, self.sequence) * len(set(self.replicas(ranks)))
        return Work(
            dtype=DType.FLOAT32,
            rank_parameters=self.spread.rank_parameters(self, ranks),
            activation=self.batch // microbatches * self.spread.positions(self, ranks) * self.width,
            flops=flops + self.spread.flops_done_again(self, ranks),
        )

    def elements(self) -> dict[str, int]:
        """Return name -> elements of a parameter."""
        return {name: prod(shape) for name, shape in self.parameter_sizes()}

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Return rank -> its replica (`Spread.replicas`)."""
        return self.spread.replicas(ranks)

    @property
    def framework_arms(self) -> tuple[str, ...]:
        """All arms declared for the parallelism; DDP also with the bucket sizes of the file."""
        return (*map(ddp_arm, self.ddp_buckets_mib), *arms_of_framework(self.spread.framework))
