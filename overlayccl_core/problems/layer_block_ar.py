"""layer_block_ar: the sum over ranks of what attention and MLP of a parallel block add, both given together.

Where a block computes attention and MLP from the same input (GPT-J, Wang and Komatsuzaki 2021; PaLM, Chowdhery et
al. 2022, section 2), tensor parallelism leaves two partial activations at once on each rank: M microbatches, L
blocks, two parts. The step needs their sum only: one total a block, over ranks and parts.

Two sites have this shape (Megatron-LM, Shoeybi et al. 2019, section 3), as in tp_mlp:
  exit   of a block: the sum runs in the forward pass; in the backward pass both parts have the total's gradient.
  entry  of a block: the identity in the forward pass; the sum of the two partial input gradients runs in the
         backward pass, blocks reversed: one norm is in front of both. This Case IS that sum, so it has no backward
         of its own.
"""

from typing import Any

from pydantic import Field

from overlayccl_core.configuration.fields import Count
from overlayccl_core.problems import tp_mlp
from overlayccl_core.program.case import Case
from overlayccl_core.program.language import add, all_reduce
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.recorder import IO

PARTS = 2  # 0: attention, 1: MLP; they are added on their rank, so a sum has the bytes of one

# Sums of activations, as in tp_mlp: the exit's backward is the identity for each part.
parameters, name, proxy = tp_mlp.parameters, tp_mlp.name, tp_mlp.proxy
has_backward, equals_backward = tp_mlp.has_backward, tp_mlp.equals_backward
payload_bytes, bus_factor = tp_mlp.payload_bytes, tp_mlp.bus_factor


class Entry(tp_mlp.Entry):
    """Any number of ranks fits."""

    layers: Count = Field(description="parallel blocks, one after another; each has one sum, of two parts")


def problem(case: Case) -> Problem:
    """Ports ("partial", m, l, part) -> ("total", m, l), part 0: attention, 1: MLP; the block of (m, l) gives both
    partial sums and needs the one total of the block before it."""
    return tp_mlp.of_sums(case, PARTS)


def reference(io: IO, p: Any) -> None:
    """Both parts added on their rank, and the sum of that over ranks as soon as it is there."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = (io.read("partial", m, layer, part) for part in range(p.parts))
            io.write("total", m, layer, all_reduce(add(attention, mlp), "sum"))


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"microbatches": 3, "layers": 2, "shape": [1, 5, 7]}
    train = {"microbatches": 4, "layers": 16, "shape": [1, 2048, 4096]}  # half of Llama 7B
    return {"small": small, "train": train, "train-entry": {**train, "site": "entry"}}
