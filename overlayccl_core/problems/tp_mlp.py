"""tp_mlp: sums of partial activations over ranks, for M microbatches and L layers, in the middle of a model.

A row-parallel layer leaves on each rank a partial activation (B, S, D); everyone needs the sum over ranks
before the next layer of that microbatch can run. L counts sums: a transformer block has two.

Two sites have this shape (Megatron-LM, Shoeybi et al. 2019, section 3):
  exit   of a block (Megatron's g): the sum runs in the forward pass; its backward is the identity.
  entry  of a block (Megatron's f): the identity in the forward pass; the sum of the partial input gradients
         runs in the backward pass, layers reversed. This Case IS that sum, so it has no backward of its own.
         The gradients of the weights that read the input are left to be computed while it is in flight.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue, all_reduce_factor, count
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_reduce
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO


class Entry(Fields):
    """Any number of ranks fits."""

    microbatches: Count = Field(description="microbatches of a step")
    layers: Count = Field(description="sums of a microbatch, one after another; a transformer block has two")
    shape: tuple[Count, ...] = Field(min_length=1, description="[batch, sequence, width] of an activation")
    site: Literal["exit", "entry"] = Field(
        default="exit", description="of a block: exit (the default) or entry"
    )


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    return entry.model_dump()


def name(case: Case) -> str:
    """m8-l8-32KiB, or m8-l8-32KiB-entry: microbatches, sums, bytes of each."""
    each = bytes_text(count(case["shape"]) * case.dtype.bytes)
    site = "" if case["site"] == "exit" else f"-{case['site']}"
    return f"m{case['microbatches']}-l{case['layers']}-{each}{site}"


def problem(case: Case) -> Problem:
    """Ports ("partial", m, l) -> ("total", m, l); the block of (m, l) needs the total before it."""
    return of_sums(case)


def of_sums(case: Case, parts: int | None = None) -> Problem:
    """The Problem of sums, each of one partial activation a rank, or of several: ("partial", m, l, part)."""
    microbatches, layers, shape = range(case["microbatches"]), case["layers"], case["shape"]
    order = tuple(range(layers)) if case["site"] == "exit" else tuple(reversed(range(layers)))
    each = [(m, layer) for m in microbatches for layer in order]
    before = {(m, b): (m, a) for m in microbatches for a, b in pairwise(order)}
    given = {
        at: (("partial", *at),) if parts is None else tuple(("partial", *at, part) for part in range(parts))
        for at in each
    }
    blocks = [
        Segment(name=("block", *at), needs=(("total", *before[at]),) if at in before else (), gives=given[at])
        for at in each
    ]
    left = [Segment(name=("weights", *at), after=(("block", *at),)) for at in each if case["site"] == "entry"]
    last = "loss" if case["site"] == "exit" else "front"
    ends = [Segment(name=(last, m), needs=(("total", m, order[-1]),)) for m in microbatches]
    total = PortSpec(
        shape=shape, dtype=case.dtype, placement=Placement.REPLICATE, cotangent=Placement.REPLICATE
    )
    partial = replace(total, placement=Placement.PARTIAL)
    return Problem(
        case=case,
        inputs={port: partial for at in each for port in given[at]},
        outputs={("total", *at): total for at in each},
        segments=(*blocks, *left, *ends),
        parameters={
            **of_every_problem(case),
            "microbatches": case["microbatches"],
            "layers": layers,
            "layer_order": order,
            **({} if parts is None else {"parts": parts}),
            "shape": shape,
            "elements": count(shape),
        },
    )


def reference(io: IO, p: Any) -> None:
    """Each partial activation summed over ranks as soon as it is there."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            io.write("total", m, layer, all_reduce(io.read("partial", m, layer), "sum"))


def has_backward(case: Case) -> bool:
    """The exit's backward is the identity; the entry is itself the backward half of one."""
    return bool(case["site"] == "exit")


def equals_backward(case: Case) -> Case | None:
    """None: the identity needs no library."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that one rank gives to all M * L sums together."""
    return int(case["microbatches"] * case["layers"] * count(case["shape"]) * case.dtype.bytes)


bus_factor = all_reduce_factor


def proxy(large: Case) -> dict[str, Any]:
    """At most two microbatches of two layers, of the same shape."""
    fewer = {name: min(large[name], 2) for name in ("microbatches", "layers")}
    return {**fewer, "shape": large["shape"], "site": large["site"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"microbatches": 3, "layers": 2, "shape": [1, 5, 7]}
    train = {"microbatches": 4, "layers": 32, "shape": [1, 2048, 4096]}  # half of Llama 7B
    return {"small": small, "train": train, "train-entry": {**train, "site": "entry"}}
