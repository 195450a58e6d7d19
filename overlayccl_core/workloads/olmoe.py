"""A transformer with a mixture of experts, data parallel but for experts and head, which lie over all ranks.

Muennighoff et al. 2024 (OLMoE): a router and SwiGLU experts in place of the MLP, rotary attention, RMSNorm. A rank
has texts of its own. In each layer its tokens go to the ranks of their experts and come back: two exchanges. The
rows of the head lie over the ranks, too: the hidden states of all ranks' tokens are gathered, and each rank has the
logits of its words for all of them. All else (attention, router, norms, embedding) is replicated, and its gradients
are averaged.

An expert has room for so many tokens of each text (its capacity). Routing and capacity are of a text by itself, so
the loss of a batch is the mean over its microbatches, however it is split.
"""

from enum import StrEnum
from math import ceil, prod
from typing import Any, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from overlayccl_core.configuration import models
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Shape, Site, Work
from overlayccl_core.configuration.text_models import TextModel
from overlayccl_core.measuring.frameworks import WAYS, Framework, arms_of_framework
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Direction
from overlayccl_core.workloads import llama

EXCHANGES = ("dispatch", "combine")  # of a layer: tokens to their experts and back
BACKWARD = "_backward"  # behind the name of a site: the backward of the site of that name


class Routing(StrEnum):
    """Who chooses."""

    EXPERTS = "experts"  # each expert takes its capacity of a text's tokens, those with the best scores
    TOKENS = "tokens"  # each token goes to its best experts, while they have room


def experts_of(experts: int, ranks: int) -> tuple[range, ...]:
    """Return the experts of each rank: as even as can be, the first ranks have one more."""
    each, more = divmod(experts, ranks)
    ends = [each * rank + min(rank, more) for rank in range(ranks + 1)]
    return tuple(map(range, ends, ends[1:]))


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


class Model(Sizes, TextModel):
    """A training step on text."""

    routing: Routing = Field(
        default=Routing.EXPERTS,
        description="who chooses: experts (each takes its capacity: even exchanges; the default) or tokens (each "
        "goes to its top_k experts, while they have room)",
    )
    top_k: Count = Field(description="experts that a token goes to; of experts' choice: on average")
    capacity_factor: PositiveFloat | None = Field(
        default=None,
        description="of tokens' choice: the room of an expert, in times of its even share of a text's tokens",
    )
    balance: NonNegativeFloat | None = Field(
        default=None,
        description="of tokens' choice: the part of the router's auxiliary loss in the loss",
    )
    heads: Count = Field(description="attention heads")
    loss_tokens: Count | None = Field(
        default=None,
        description="tokens whose losses are computed at once (default: of all ranks' texts of a microbatch)",
    )
    dtype: DType = Field(
        default=DType.BFLOAT16,
        description="of parameters, gradients and activations; losses are in float32, and so is all of a model "
        "that is trained",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        llama.check_heads(self.width, self.heads)
        if self.top_k > self.experts:
            raise ValueError(
                f"top_k must be at most experts (got {self.top_k} and {self.experts}): a token goes to each once"
            )
        by_tokens = self.routing is Routing.TOKENS
        for name in ("capacity_factor", "balance"):
            if (getattr(self, name) is not None) is not by_tokens:
                raise ValueError(
                    f"{name} is of routing by tokens, and needed there (got {getattr(self, name)} and routing "
                    f"{self.routing}): "
                    + (
                        "say it, such as 1.25 and 0.01"
                        if by_tokens
                        else "leave it out, or say routing: tokens"
                    )
                )
        return self

    @property
    def decides(self) -> bool:
        """A router does."""
        return True

    def why_sized_alone(self) -> str | None:
        """Return that it is trained in float32 alone, if its dtype is another."""
        if self.dtype is DType.FLOAT32:
            return None
        return f"its dtype is {self.dtype}, and training is in float32 (say dtype: float32 in its file to train it)"

    def check(self, ranks: int) -> None:
        """Check ranks and text: of experts' choice ranks divide the experts; of any, words and losses."""
        self.check_text()
        divided = [("vocabulary", self.vocabulary)]
        if self.routing is Routing.EXPERTS:
            divided.append(("experts", self.experts))
        for what, count in divided:
            if count % ranks:
                raise ValueError(
                    f"ranks must divide {what} (got {ranks} and {count}): leave the model out, or give it a file "
                    f"with a multiple of {ranks}"
                )
        if self.experts < ranks:
            raise ValueError(
                f"each rank must have an expert (got {self.experts} experts and {ranks} ranks): leave the model "
                f"out, or give it a file with at least {ranks}"
            )
        for microbatches in self.microbatches:
            if (tokens := self.tokens_of_loss(microbatches, ranks)) % (self.loss_tokens or tokens):
                raise ValueError(
                    f"loss_tokens must divide the tokens of a microbatch on all ranks (got {self.loss_tokens} and "
                    f"{tokens}): leave it out, or choose a divisor, such as {self.sequence}"
                )

    @property
    def capacity(self) -> int:
        """Tokens of a text that an expert takes at most; of experts' choice exactly."""
        even = self.sequence * self.top_k / self.experts
        return min(ceil(even * (self.capacity_factor or 1)), self.sequence)

    def rows(self, microbatches: int) -> int:
        """Return the tokens of one rank that an expert takes from each microbatch: rows of an exchange."""
        return self.batch // microbatches * self.capacity

    def tokens_of_loss(self, microbatches: int, ranks: int) -> int:
        """Return the tokens of a microbatch on all ranks."""
        return ranks * (self.batch // microbatches) * self.sequence

    def losses(self, microbatches: int, ranks: int) -> int:
        """Return into how many equal parts the tokens of a microbatch are cut for their losses."""
        tokens = self.tokens_of_loss(microbatches, ranks)
        return tokens // (self.loss_tokens or tokens)

    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites: those of each microbatch, forward and backward, and the means of the gradients.

        Equal exchanges have one Case: a step runs it once for each such site.
        """
        forward = [
            site for m in range(microbatches) for site in self._sites_of_a_microbatch(m, microbatches, ranks)
        ]
        backward = [
            Site(name=one.name + BACKWARD, problem=one.problem, entry=one.entry, direction=Direction.BACKWARD)
            for one in forward
        ]
        sizes = [prod(shape) for name, shape in self.parameter_sizes() if not is_spread(name)]
        means = {"sizes": sizes, "overlap": True, "dtype": self.dtype.value}
        return (*backward, Site(name="gradients", problem="grad_ar", entry=means), *forward)

    def _sites_of_a_microbatch(self, m: int, microbatches: int, ranks: int) -> list[Site]:
        """Return the forward sites, the last ones first."""
        dtype = {"dtype": self.dtype.value}
        tokens, losses = self.tokens_of_loss(microbatches, ranks), self.losses(microbatches, ranks)
        loss = {
            "tokens": tokens // losses,
            "vocabulary": self.vocabulary,
        }  # in float32, whatever the rest is in
        hidden = {"microbatches": 1, "layers": 1, "shape": [tokens, self.width], **dtype}
        problem, entries = self._exchanges(self.rows(microbatches), ranks)
        return [
            *(Site(name=loss_site(m, part), problem="dist_ce", entry=loss) for part in range(losses)),
            Site(name=f"hidden_{m}", problem="fsdp_prefetch", entry=hidden),
            *(
                Site(name=exchange_site(name, layer, m), problem=problem, entry={**entries[name], **dtype})
                for layer in reversed(range(self.layers))
                for name in reversed(EXCHANGES)
            ),
        ]

    def _exchanges(self, rows: int, ranks: int) -> tuple[str, dict[str, dict[str, Any]]]:
        """Return the Problem of the exchanges, and the entry of each; rows: of an expert, from one rank.

        Tokens' choice: the counts are the room that experts have; rows without a token are zeros.
        """
        if self.routing is Routing.EXPERTS:
            chunks = {"chunk": self.experts // ranks * rows, "width": self.width}
            return "uniform_a2a", {name: chunks for name in EXCHANGES}
        there = [rows * len(experts) for experts in experts_of(self.experts, ranks)]
        counts = {"dispatch": [there] * ranks, "combine": [[count] * ranks for count in there]}
        return "alltoallv", {name: {"counts": counts[name], "width": self.width} for name in EXCHANGES}

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Each rank has texts of its own."""
        return tuple(range(ranks))

    def work(self, microbatches: int, ranks: int) -> Work:
        """An expert computes all rows of its capacity, filled or not. Counted as in `llama.Sizes.flops_of_text`."""
        sizes = self.parameter_sizes()
        tokens = self.batch * self.sequence * ranks
        dense = sum(prod(shape) for name, shape in sizes if len(shape) == 2 and name != "embedding")
        expert = 3 * self.width * self.expert_width
        scores = 2 * self.layers * self.sequence * self.width
        rows = self.batch * self.capacity * self.experts * ranks
        here = self.layers * len(experts_of(self.experts, ranks)[0]) * expert
        others = sum(prod(shape) for name, shape in sizes if not is_spread(name))
        return Work(
            dtype=self.dtype,
            rank_parameters=others + here + self.vocabulary * self.width // ranks,
            activation=self.batch // microbatches * self.sequence * self.width,
            flops=6 * (tokens * (dense + scores) + rows * self.layers * expert),
        )

    @property
    def framework_arms(self) -> tuple[str, ...]:
        """All arms declared for experts; those that send counts only where counts change, in tokens' choice."""
        varies = self.routing is Routing.TOKENS
        return tuple(arm for arm in arms_of_framework(Framework.EXPERTS) if varies or not WAYS[arm].counts)


def exchange_site(name: str, layer: int, m: int) -> str:
    """Return the name of the site of an exchange."""
    return f"{name}_{layer}_{m}"


def loss_site(m: int, part: int) -> str:
    """Return the name of the site of the losses of a part of a microbatch's tokens."""
    return f"loss_{m}_{part}"


def is_spread(name: str) -> bool:
    """Return whether a parameter lies over the ranks; all others are replicated."""
    return name == "head" or name.endswith((".gate_up", ".down"))
