"""A Llama-like transformer: its fields, the shapes of its parameters, the exchanges of its ranks in a step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from math import ceil, prod
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from overlayccl_core.configuration import corpus, models, tokens
from overlayccl_core.configuration.fields import Count
from overlayccl_core.configuration.models import Shape, Site, Work
from overlayccl_core.measuring.frameworks import Framework, arms_of_framework, ddp_arm
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Direction

STAGES = 2  # of a pipeline
BYTES = 256  # values of a byte: the text is trained on byte by byte (`training/text.py`)
# The rows of a block's flat parameter are padded to a multiple, so most counts of ranks divide them.
ROWS = 48


class Parallelism(StrEnum):
    """Ways to spread the model over its ranks."""

    TENSOR = "tensor"  # each block over all ranks (Megatron-LM); replicated embedding, norms and head
    DATA = "data"  # a whole model on every rank
    PIPELINE = "pipeline"  # half of the blocks on a rank of the first half, the rest on one of the second
    SHARDED = "sharded"  # the parameters of each block over all ranks, gathered to run it (FSDP)


class Block(StrEnum):
    """Input of an MLP."""

    SEQUENTIAL = "sequential"  # the sum with attention's output; a norm before each
    PARALLEL = "parallel"  # the input of attention, too (GPT-J, PaLM): one norm


FRAMEWORK = {
    Parallelism.TENSOR: Framework.TENSOR,
    Parallelism.DATA: Framework.DDP,
    Parallelism.PIPELINE: Framework.PIPELINING,
    Parallelism.SHARDED: Framework.FSDP,
}
NORMS = {Block.SEQUENTIAL: ("attention_norm", "mlp_norm"), Block.PARALLEL: ("norm",)}  # of a block


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """A tensor each stage of a pipeline averages over its ranks. names: stage -> its parameter, if any."""

    names: tuple[str | None, ...]
    elements: int


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


class Model(Sizes, models.Model):
    """A training step on text."""

    parallelism: Parallelism = Field(
        description="tensor (each block over all ranks), data (whole models), sharded (whole models, gathered) or "
        "pipeline (two stages)"
    )
    schedule: Literal["gpipe", "1f1b"] | None = Field(
        default=None,
        description="of a pipeline: gpipe (all microbatches may be under way) or 1f1b (two of them)",
    )
    heads: Count = Field(description="attention heads")
    sequence: Count = Field(description="tokens of a text")
    corpus: str | None = Field(
        default=None,
        description="folder of text to train on (default: the sources of Python's standard library)",
    )
    tokenizer: str | None = Field(
        default=None,
        description="tokenizer.json whose tokens the corpus is trained on as (default: byte by byte)",
    )
    ddp_buckets_mib: tuple[PositiveFloat | tuple[PositiveFloat, ...], ...] = Field(
        default=(),
        description="bucket sizes of torch's own data parallelism (DDP), MiB, each an arm; a list gives "
        "each bucket its own, the last that of all others",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_heads(self.width, self.heads)
        if self.tokenizer is None and self.vocabulary < BYTES:
            raise ValueError(
                f"vocabulary must hold all {BYTES} values of a byte, which are the tokens of the text (got "
                f"{self.vocabulary}): make it at least {BYTES}"
            )
        if self.ddp_buckets_mib and self.parallelism is not Parallelism.DATA:
            raise ValueError("ddp_buckets_mib is of data parallelism: leave it out")
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

    def flat_rows(self) -> int:
        """Sharded: return the rows of a block's one parameter [rows, width].

        Its parameters lie behind one another, padded, as in FSDP's FlatParameter (Zhao et al. 2023).
        """
        elements = sum(prod(shape) for name, shape in self.parameter_sizes() if name.startswith("blocks.0."))
        return ceil(elements / self.width / ROWS) * ROWS

    def data_digest(self) -> str | None:
        """Return the digest of the corpus's text and the tokenizer's file, if named."""
        if self.corpus is None:
            return None
        folder = Path(self.corpus)
        return (
            corpus.digest(folder) if self.tokenizer is None else tokens.digest(folder, Path(self.tokenizer))
        )

    def on_text(self, folder: str | None, tokenizer: str | None) -> Self:
        """Return the same model with another text."""
        return self.changed(corpus=folder or self.corpus, tokenizer=tokenizer or self.tokenizer)

    def check(self, ranks: int) -> None:
        """Check ranks and text.

        Tensor parallel: ranks divide heads and hidden. Sharded: a block's rows. Pipeline: they are even. The corpus
        has enough for a batch; the tokenizer's tokens are among the model's.
        """
        self._check_text()
        if self.parallelism is Parallelism.PIPELINE and ranks % STAGES:
            raise ValueError(
                f"ranks of a pipeline must be even, as rank r and rank r + ranks / 2 are one (got {ranks}): leave "
                "the model out, or choose a deployment with an even number"
            )
        if self.parallelism is Parallelism.SHARDED and self.flat_rows() % ranks:
            raise ValueError(
                "ranks must divide the rows of a block's parameters, which are padded to a multiple of "
                f"{ROWS} (got {ranks} and {self.flat_rows()}): leave the model out, or take as many ranks as "
                f"divide {ROWS}"
            )
        if self.parallelism is not Parallelism.TENSOR:
            return
        for what, count in (("heads", self.heads), ("hidden", self.hidden)):
            if count % ranks:
                raise ValueError(
                    f"ranks must divide {what} of a tensor-parallel model (got {ranks} and {count}): leave the "
                    "model out, or give it a file with other sizes"
                )

    def _check_text(self) -> None:
        if self.corpus is None:
            if self.tokenizer is not None:
                raise ValueError(
                    f"tokenizer is of a corpus, and none is named (got {self.tokenizer}): name a folder of text as "
                    "corpus, or leave tokenizer out"
                )
        elif self.tokenizer is None:
            corpus.check(Path(self.corpus), self.batch, self.sequence)
        else:
            tokens.check(Path(self.corpus), Path(self.tokenizer), self.batch, self.sequence, self.vocabulary)

    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites of a step.

        Tensor parallel: two sums a block, microbatch and direction, of a parallel block one. Data parallel: one
        mean a parameter. Pipeline: the hand-over between stages; with several pipelines, the means of their
        gradients. Sharded: each block gathered for the forward and the backward pass of each microbatch, its
        gradients summed and handed out; embedding, norm and head as in data parallel.
        """
        if self.parallelism is Parallelism.PIPELINE:
            return self._pipeline_sites(microbatches, ranks)
        if self.parallelism is Parallelism.TENSOR:
            sequential = self.block is Block.SEQUENTIAL
            sums = {
                "microbatches": microbatches,
                "layers": 2 * self.layers if sequential else self.layers,
                "shape": [self.batch // microbatches, self.sequence, self.width],
            }
            problem = "tp_mlp" if sequential else "layer_block_ar"
            return tuple(
                Site(name=place, problem=problem, entry={**sums, "site": place})
                for place in ("entry", "exit")
            )
        sizes = self.parameter_sizes()
        if self.parallelism is Parallelism.DATA:
            entry = {"sizes": [prod(shape) for _, shape in sizes], "overlap": True}
            return (Site(name="gradients", problem="grad_ar", entry=entry),)
        replicated = [prod(shape) for name, shape in sizes if not name.startswith("blocks.")]
        gradients = Site(name="gradients", problem="grad_ar", entry={"sizes": replicated})
        weights = {
            "microbatches": microbatches,
            "layers": self.layers,
            "shape": [self.flat_rows(), self.width],
        }
        gather = Site(name="gather", problem="fsdp_prefetch", entry=weights)
        regather = Site(name="regather", problem="fsdp_prefetch", entry={**weights, "site": "regather"})
        scatter = replace(gather, name="scatter", direction=Direction.BACKWARD)
        return (scatter, gradients, regather, gather)

    def work(self, microbatches: int, ranks: int) -> Work:
        """Return the work, in float32. Tensor parallel ranks share the blocks alone: each computes the head."""
        sizes = {name: prod(shape) for name, shape in self.parameter_sizes()}
        shared = {name: n for name, n in sizes.items() if name.startswith("blocks.") and "norm" not in name}
        whole = sum(sizes.values()) - sum(shared.values())
        rank_parameters = {
            Parallelism.TENSOR: whole + sum(shared.values()) // ranks,
            Parallelism.DATA: sum(sizes.values()),
            Parallelism.SHARDED: sizes["embedding"]
            + sizes["norm"]
            + sizes["head"]
            + self.layers * self.flat_rows() * self.width // ranks,
            Parallelism.PIPELINE: sum(one.elements for one in self.averaged()),
        }[self.parallelism]
        tokens = self.batch * self.sequence
        flops = self.flops_of_text(tokens, self.sequence) * len(set(self.replicas(ranks)))
        if self.parallelism is Parallelism.TENSOR:
            flops += 6 * tokens * sizes["head"] * (ranks - 1)
        return Work(
            dtype=DType.FLOAT32,
            rank_parameters=rank_parameters,
            activation=self.batch // microbatches * self.sequence * self.width,
            flops=flops,
        )

    def _pipeline_sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        handed_over = {
            "microbatches": microbatches,
            "shape": [self.batch // microbatches, self.sequence, self.width],
            "schedule": self.schedule,
        }
        of_a_stage = {"sizes": [one.elements for one in self.averaged()], "ranks": ranks // STAGES}
        gradients = Site(name="gradients", problem="grad_ar", entry=of_a_stage)
        between = Site(name="stages", problem="pp_send_recv", entry=handed_over)
        return (gradients, between) if ranks > STAGES else (between,)

    def averaged(self) -> tuple[Averaged, ...]:
        """Pipeline: return the parameters of both stages. Embedding and head are as large, so are the blocks."""
        embedding, *blocks, norm, head = sizes = {name: prod(shape) for name, shape in self.parameter_sizes()}
        half = len(blocks) // STAGES
        pairs = zip_longest((embedding, *blocks[:half]), (head, *blocks[half:], norm))
        return tuple(
            Averaged(names=names, elements=max(sizes[name] for name in names if name)) for names in pairs
        )

    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Tensor parallel: one. Pipeline: one of rank r and rank r + ranks / 2. Else one a rank."""
        if self.parallelism is Parallelism.PIPELINE:
            return tuple(rank % (ranks // STAGES) for rank in range(ranks))
        return (0,) * ranks if self.parallelism is Parallelism.TENSOR else tuple(range(ranks))

    @property
    def framework_arms(self) -> tuple[str, ...]:
        """All arms declared for the parallelism; DDP also with the bucket sizes of the file."""
        return (*map(ddp_arm, self.ddp_buckets_mib), *arms_of_framework(FRAMEWORK[self.parallelism]))
