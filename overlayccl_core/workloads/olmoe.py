"""A transformer with a mixture of experts, data parallel but for its experts, spread over all ranks.

Muennighoff et al. 2024 (OLMoE): a router and SwiGLU experts in place of the MLP, attention as in Llama. Routing is
by expert choice (Zhou et al. 2022): each expert takes its capacity in tokens of each rank, so all exchanges are
even. The rows of the head are spread over all ranks too; all compute the loss of one rank's text at a time. All
else (attention, router, norms, embedding) is replicated, and its gradients are averaged.

There is no file training/models/olmoe.py: such a model is sized, and its sites give Cases; it is not trained.
"""

from math import ceil, prod
from typing import Self

from pydantic import Field, model_validator

from overlayccl_core.configuration import models
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Shape, Site, Work
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Direction
from overlayccl_core.workloads import llama

EXCHANGES = ("dispatch", "combine")  # of a layer: tokens to their experts and back


class Sizes(models.Sizes):
    """Widths of the model. Factors of the same input are one matrix: query, key and value; gate and up."""

    width: Count = Field(description="channels of the residual stream")
    expert_width: Count = Field(description="channels of an expert")
    experts: Count = Field(description="of each layer")
    layers: Count = Field(description="blocks, each attention and experts")
    vocabulary: Count = Field(description="number of tokens")

    def parameter_sizes(self) -> tuple[tuple[str, Shape], ...]:
        """Return (name, shape) of every parameter, in the order of the forward pass."""
        block = (
            ("attention_norm", (self.width,)),
            ("query_key_value", (3 * self.width, self.width)),
            ("output", (self.width, self.width)),
            ("experts_norm", (self.width,)),
            ("router", (self.experts, self.width)),
            ("gate_up", (self.experts, 2 * self.expert_width, self.width)),
            ("down", (self.experts, self.width, self.expert_width)),
        )
        return llama.parameters_of(self.width, self.vocabulary, self.layers, block)


class Model(Sizes, models.Model):
    """A training step on text."""

    top_k: Count = Field(description="experts that a token goes to on average")
    heads: Count = Field(description="attention heads")
    sequence: Count = Field(description="tokens of a text")
    dtype: DType = Field(default=DType.BFLOAT16, description="of parameters, gradients and activations")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        llama.check_heads(self.width, self.heads)
        return self

    def check(self, ranks: int) -> None:
        """Check that ranks divide experts and vocabulary."""
        for what, count in (("experts", self.experts), ("vocabulary", self.vocabulary)):
            if count % ranks:
                raise ValueError(
                    f"ranks must divide {what} (got {ranks} and {count}): leave the model out, or give it a file "
                    f"with a multiple of {ranks}"
                )

    def capacity(self, microbatches: int) -> int:
        """Return the tokens of one rank an expert takes from each microbatch."""
        return ceil(self.batch // microbatches * self.sequence * self.top_k / self.experts)

    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites: two exchanges a layer and microbatch, forward and backward; the means; the loss.

        Equal exchanges have one Case: a step runs it once for each such site.
        """
        dtype = self.dtype.value
        rows = self.capacity(microbatches) * self.experts
        tokens = {"pattern": "uniform", "rows": rows, "width": self.width, "dtype": dtype}
        exchanges = {
            direction: [
                Site(
                    name=f"{name}_{layer}_{m}_{direction}",
                    problem="alltoallv",
                    entry=tokens,
                    direction=direction,
                )
                for layer in range(self.layers)
                for m in range(microbatches)
                for name in EXCHANGES
            ]
            for direction in (Direction.BACKWARD, Direction.FORWARD)
        }
        gradients = {
            "sizes": [prod(s) for name, s in self.parameter_sizes() if not _spread(name)],
            "dtype": dtype,
        }
        of_a_text = self.batch // microbatches * self.sequence
        loss = {"tokens": of_a_text, "vocabulary": self.vocabulary, "dtype": dtype}
        return (
            *exchanges[Direction.BACKWARD],
            Site(name="gradients", problem="grad_ar", entry=gradients),
            *exchanges[Direction.FORWARD],
            *(Site(name=f"loss_{m}", problem="dist_ce", entry=loss) for m in range(microbatches)),
        )

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Each rank has texts of its own."""
        return tuple(range(ranks))

    def work(self, microbatches: int, ranks: int) -> Work:
        """An expert computes all rows of its capacity, filled or not. Counted as in `llama.Sizes.flops_of_text`."""
        sizes = self.parameter_sizes()
        tokens = self.batch * self.sequence * ranks
        dense = sum(prod(shape) for name, shape in sizes if len(shape) == 2 and name != "embedding")
        experts = self.layers * 3 * self.width * self.expert_width  # of one expert, in all layers
        rows = microbatches * self.capacity(microbatches) * self.experts * ranks
        scores = 2 * self.layers * self.sequence * self.width
        return Work(
            dtype=self.dtype,
            rank_parameters=sum(prod(shape) // (ranks if _spread(name) else 1) for name, shape in sizes),
            activation=self.batch // microbatches * self.sequence * self.width,
            flops=6 * (tokens * (dense + scores) + rows * experts),
        )


def _spread(name: str) -> bool:
    """Whether a parameter is spread over the ranks."""
    return name == "head" or name.endswith((".gate_up", ".down"))
