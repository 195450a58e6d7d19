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

from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue, count
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import add, all_reduce
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

PARTS = 2  # 0: attention, 1: MLP


class Entry(Fields):
    """Any number of ranks fits."""

    microbatches: Count = Field(description="microbatches of a step")
    layers: Count = Field(description="parallel blocks, one after another; each has one sum, of two parts")
    shape: tuple[Count, ...] = Field(min_length=1, description="[batch, sequence, width] of an activation")
    site: Literal["exit", "entry"] = Field(
        default="exit", description="of a block: exit (the default) or entry"
    )


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    return entry.model_dump()


def name(case: Case) -> str:
    """m8-l4-32KiB, or m8-l4-32KiB-entry: microbatches, blocks, bytes of a block's sum."""
    each = bytes_text(count(case["shape"]) * case.dtype.bytes)
    site = "" if case["site"] == "exit" else f"-{case['site']}"
    return f"m{case['microbatches']}-l{case['layers']}-{each}{site}"


def problem(case: Case) -> Problem:
    """Ports ("partial", m, l, part) -> ("total", m, l), part 0: attention, 1: MLP; the block of (m, l) gives both
    partial sums and needs the one total of the block before it."""
    microbatches, layers, shape = range(case["microbatches"]), case["layers"], case["shape"]
    order = tuple(range(layers)) if case["site"] == "exit" else tuple(reversed(range(layers)))
    each = [(m, layer) for m in microbatches for layer in order]
    before = {(m, b): (m, a) for m in microbatches for a, b in pairwise(order)}
    blocks = [
        Segment(
            name=("block", *at),
            needs=(("total", *before[at]),) if at in before else (),
            gives=tuple(("partial", *at, part) for part in range(PARTS)),
        )
        for at in each
    ]
    left = [Segment(name=("weights", *at), after=(("block", *at),)) for at in each if case["site"] == "entry"]
    last = "loss" if case["site"] == "exit" else "front"
    ends = [Segment(name=(last, m), needs=(("total", m, order[-1]),)) for m in microbatches]
    partial = PortSpec(
        shape=shape, dtype=case.dtype, placement=Placement.PARTIAL, cotangent=Placement.REPLICATE
    )
    total = PortSpec(
        shape=shape, dtype=case.dtype, placement=Placement.REPLICATE, cotangent=Placement.REPLICATE
    )
    return Problem(
        case=case,
        inputs={("partial", *at, part): partial for at in each for part in range(PARTS)},
        outputs={("total", *at): total for at in each},
        segments=(*blocks, *left, *ends),
        parameters={
            **of_every_problem(case),
            "microbatches": case["microbatches"],
            "layers": layers,
            "layer_order": order,
            "parts": PARTS,
            "shape": shape,
            "elements": count(shape),
        },
    )


def reference(io: IO, p: Any) -> None:
    """Both parts added on their rank, and the sum of that over ranks as soon as it is there."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = (io.read("partial", m, layer, part) for part in range(p.parts))
            io.write("total", m, layer, all_reduce(add(attention, mlp), "sum"))


def has_backward(case: Case) -> bool:
    """The exit's backward is the identity for each part; the entry is itself the backward half of one."""
    return bool(case["site"] == "exit")


def equals_backward(case: Case) -> Case | None:
    """None: the identity needs no library."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that one rank gives to all M * L sums together. Parts added on their rank are one operand."""
    return int(case["microbatches"] * case["layers"] * count(case["shape"]) * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw * 2 (n - 1) / n, as all_reduce in nccl-tests, doc/PERFORMANCE.md."""
    return 2 * (case.ranks - 1) / case.ranks


def proxy(large: Case) -> dict[str, Any]:
    """At most two microbatches of two blocks, of the same shape."""
    fewer = {name: min(large[name], 2) for name in ("microbatches", "layers")}
    return {**fewer, "shape": large["shape"], "site": large["site"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"microbatches": 3, "layers": 2, "shape": [1, 5, 7]}
    train = {"microbatches": 4, "layers": 16, "shape": [1, 2048, 4096]}  # half of Llama 7B
    return {"small": small, "train": train, "train-entry": {**train, "site": "entry"}}
