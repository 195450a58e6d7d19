"""A Llama-like transformer: its fields, the shapes of its parameters, what its ranks do together in a step."""

from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Self

from pydantic import Field, PositiveFloat, model_validator

from overlayccl_core.configuration import corpus, models
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Shape, Site

BYTES = 256  # values of a byte: the text is trained on byte by byte (`training/text.py`)


class Parallelism(StrEnum):
    """How the model is spread over its ranks."""

    TENSOR = "tensor"  # each block over all ranks (Megatron-LM); replicated embedding, norms and head
    DATA = "data"  # a whole model on every rank


class Sizes(models.Sizes):
    """Widths of a Llama-like model.

    Touvron et al. 2023: RMSNorm before each half of a block, rotary attention without biases (as many key
    heads as query heads), SwiGLU of `hidden` channels, a final norm, a head that is not the embedding. What
    multiplies the same input is one matrix, as in Megatron-LM: query, key and value; gate and up.
    """

    width: Count = Field(description="channels of the residual stream")
    hidden: Count = Field(description="channels of an MLP")
    layers: Count = Field(description="blocks, each attention and MLP")
    vocabulary: Count = Field(description="number of tokens")

    def parameter_sizes(self) -> tuple[tuple[str, Shape], ...]:
        """(name, shape) of every parameter, in the order of the forward pass."""
        blocks = [
            (f"blocks.{layer}.{name}", shape)
            for layer in range(self.layers)
            for name, shape in (
                ("attention_norm", (self.width,)),
                ("query_key_value", (3 * self.width, self.width)),
                ("output", (self.width, self.width)),
                ("mlp_norm", (self.width,)),
                ("gate_up", (2 * self.hidden, self.width)),
                ("down", (self.width, self.hidden)),
            )
        ]
        return (
            ("embedding", (self.vocabulary, self.width)),
            *blocks,
            ("norm", (self.width,)),
            ("head", (self.vocabulary, self.width)),
        )


class Model(Sizes, models.Model):
    """A training step on text."""

    parallelism: Parallelism = Field(description="tensor (each block over all ranks) or data (whole models)")
    heads: Count = Field(description="attention heads")
    sequence: Count = Field(description="tokens of a text")
    corpus: str | None = Field(
        default=None,
        description="folder of text to train on, byte by byte (default: the sources of Python's standard library)",
    )
    ddp_buckets_mib: tuple[PositiveFloat, ...] = Field(
        default=(), description="bucket sizes of torch's own data parallelism (DDP), MiB, each an arm"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"heads of rotary attention need an even width (got {self.width} channels for {self.heads} heads): "
                f"make width a multiple of {2 * self.heads}"
            )
        if self.vocabulary < BYTES:
            raise ValueError(
                f"vocabulary must hold all {BYTES} values of a byte, which are the tokens of the text (got "
                f"{self.vocabulary}): make it at least {BYTES}"
            )
        if self.ddp_buckets_mib and self.parallelism is not Parallelism.DATA:
            raise ValueError("ddp_buckets_mib is of data parallelism: leave it out")
        return self

    def check(self, ranks: int) -> None:
        """Tensor parallel: ranks divide heads and hidden. The corpus is there, and has enough for a batch."""
        if self.corpus is not None:
            corpus.check(Path(self.corpus), self.batch, self.sequence)
        if self.parallelism is not Parallelism.TENSOR:
            return
        for what, count in (("heads", self.heads), ("hidden", self.hidden)):
            if count % ranks:
                raise ValueError(
                    f"ranks must divide {what} of a tensor-parallel model (got {ranks} and {count}): leave the "
                    "model out, or give it a file with other sizes"
                )

    def sites(self, microbatches: int) -> tuple[Site, ...]:
        """Tensor parallel: two sums a block, microbatch and direction. Data parallel: one mean a parameter."""
        if self.parallelism is Parallelism.TENSOR:
            sums = {
                "microbatches": microbatches,
                "layers": 2 * self.layers,
                "shape": [self.batch // microbatches, self.sequence, self.width],
            }
            return tuple(
                Site(name=place, problem="tp_mlp", entry={**sums, "site": place})
                for place in ("entry", "exit")
            )
        entry = {"sizes": [prod(shape) for _, shape in self.parameter_sizes()], "overlap": True}
        return (Site(name="gradients", problem="grad_ar", entry=entry),)

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Tensor parallel: one. Data parallel: one a rank."""
        return (0,) * ranks if self.parallelism is Parallelism.TENSOR else tuple(range(ranks))

    @property
    def framework_buckets_mib(self) -> tuple[float, ...]:
        """As the file says."""
        return self.ddp_buckets_mib
