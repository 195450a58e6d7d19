"""A Llama-like transformer at the size of a cluster: tensor, pipeline and data parallel at once (Megatron-LM).

A replica of the model is `tensor * stages` consecutive ranks, so it can lie on one node. Of two stages the first
has the first half of them, and ranks a half apart hand over to each other. Equal ranks of the replicas average
their gradients. Each block is spread over the `tensor` ranks of its stage (Shoeybi et al. 2019), the head by rows
of the vocabulary; embedding and norms are replicated.

There is no file training/models/megatron.py: such a model is sized, and its sites give Cases; it is not trained.
"""

from itertools import zip_longest
from math import prod
from typing import Literal, Self

from pydantic import Field, model_validator

from overlayccl_core.configuration import models
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Site, Work
from overlayccl_core.program.kinds import DType
from overlayccl_core.workloads import llama

Sizes = llama.Sizes


class Model(llama.Sizes, models.Model):
    """A training step on text."""

    tensor: Count = Field(description="ranks that each block is spread over, which should lie on one node")
    stages: Literal[1, 2] = Field(
        default=1, description="of a pipeline: 2, or 1 (the default), which is none"
    )
    schedule: Literal["gpipe", "1f1b"] = Field(
        default="gpipe",
        description="of two stages: gpipe (the default; all microbatches may be under way) or 1f1b (two of them)",
    )
    heads: Count = Field(description="attention heads")
    sequence: Count = Field(description="tokens of a text")
    dtype: DType = Field(default=DType.BFLOAT16, description="of parameters, gradients and activations")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.layers % self.stages:
            raise ValueError(
                f"stages must divide layers (got {self.stages} and {self.layers}): choose {self.layers + 1} layers"
            )
        for what, count in (("heads", self.heads), ("hidden", self.hidden), ("vocabulary", self.vocabulary)):
            if count % self.tensor:
                raise ValueError(
                    f"tensor must divide {what} (got {self.tensor} and {count}): spread over fewer ranks"
                )
        return self

    @property
    def replica_ranks(self) -> int:
        """Ranks of one replica."""
        return self.tensor * self.stages

    def check(self, ranks: int) -> None:
        """Check for whole replicas."""
        if ranks % self.replica_ranks:
            raise ValueError(
                f"ranks must be a multiple of tensor x stages (got {ranks} and {self.replica_ranks}): leave the "
                "model out, or give it a file with another tensor"
            )

    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites of a step.

        Sums of the blocks, two a block and direction, and one more of the head's input in the backward pass; the
        mean of the gradients over replicas; the hand-over between stages; the loss of each microbatch over the
        vocabulary.
        """
        shape = [self.batch // microbatches, self.sequence, self.width]
        blocks = self.layers // self.stages
        within = {"ranks": self.tensor, "dtype": self.dtype.value}
        sums = {**within, "microbatches": microbatches, "shape": shape}
        handed_over = {"microbatches": microbatches, "shape": shape, "schedule": self.schedule}
        means = {"sizes": list(self.averaged()), "dtype": self.dtype.value}
        loss = {**within, "tokens": shape[0] * self.sequence, "vocabulary": self.vocabulary}
        replicas = ranks // self.replica_ranks
        found = [
            Site(name="entry", problem="tp_mlp", entry={**sums, "layers": 2 * blocks + 1, "site": "entry"})
        ]
        if replicas > 1:
            across = {**means, "ranks": replicas, "strided": True}
            found.append(Site(name="gradients", problem="grad_ar", entry=across))
        if self.stages > 1:
            replica = {**handed_over, "ranks": self.replica_ranks, "dtype": self.dtype.value}
            found.append(Site(name="stages", problem="pp_send_recv", entry=replica))
        found.append(
            Site(name="exit", problem="tp_mlp", entry={**sums, "layers": 2 * blocks, "site": "exit"})
        )
        losses = [Site(name=f"loss_{m}", problem="dist_ce", entry=loss) for m in range(microbatches)]
        return (*found, *losses)

    def held(self) -> tuple[tuple[int, ...], ...]:
        """Return for each stage the elements of each parameter on one of its ranks, in forward order."""
        replicated = ("embedding", "norm")
        sizes = {
            name: prod(shape) // (1 if len(shape) == 1 or name in replicated else self.tensor)
            for name, shape in self.parameter_sizes()
        }
        blocks = [n for name, n in sizes.items() if name.startswith("blocks.")]
        each = len(blocks) // self.stages
        held = [blocks[each * stage : each * (stage + 1)] for stage in range(self.stages)]
        held[0].insert(0, sizes["embedding"])
        held[-1] += [sizes["norm"], sizes["head"]]
        return tuple(map(tuple, held))

    def averaged(self) -> tuple[int, ...]:
        """Return the elements of the averaged tensors: of two stages, the larger one of each."""
        return tuple(map(max, zip_longest(*self.held(), fillvalue=0)))

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Consecutive ranks share a replica."""
        return tuple(rank // self.replica_ranks for rank in range(ranks))

    def work(self, microbatches: int, ranks: int) -> Work:
        """Nothing is computed twice."""
        return Work(
            dtype=self.dtype,
            rank_parameters=max(map(sum, self.held())),
            activation=self.batch // microbatches * self.sequence * self.width,
            flops=self.flops_of_text(self.batch * self.sequence, self.sequence)
            * (ranks // self.replica_ranks),
        )
