"""fsdp_prefetch: parameters in shards on the ranks, whole again when a microbatch reaches their layer.

Fully sharded data parallelism (Zhao et al. 2023, PyTorch FSDP; ZeRO stage 3, Rajbhandari et al. 2020). All shards
are there from the start, so how far ahead a layer is gathered, and for how many microbatches, is the strategy's
choice: it trades calls for memory. A rank's gradient of the whole parameter comes from its own data, so the
backward adds over microbatches and hands out the sum over ranks (reduce_scatter).

Two sites have this shape:
  gather    in the forward pass.
  regather  in the backward pass, layers reversed: the parameters are needed again where they were not kept. The
            gradients belong to `gather`, so this Case has no backward of its own.
"""

from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue, count, divisible, fewer_ranks, one_way_factor
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_gather
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

AXIS = {"rows": 0, "columns": 1}


class Entry(Fields):
    """The cut axis must divide over the ranks."""

    microbatches: Count = Field(description="microbatches of a step")
    layers: Count = Field(description="parameters, one a layer, one layer after another")
    shape: tuple[Count, Count] = Field(description="[rows, columns] of a whole parameter")
    shards: Literal["rows", "columns"] = Field(
        default="rows", description="what a rank holds of each parameter: rows (the default) or columns"
    )
    site: Literal["gather", "regather"] = Field(
        default="gather", description="gather (forward pass, the default) or regather (backward pass)"
    )


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    extent = entry.shape[AXIS[entry.shards]]
    if extent % ranks:
        raise ValueError(
            f"shape: its {entry.shards} must divide over the ranks (got {extent} over {ranks}): "
            f"pad them to {divisible(extent, ranks)}"
        )
    return entry.model_dump()


def name(case: Case) -> str:
    """m4-l16-112MiB, with -columns and -regather: microbatches, layers, bytes of a whole parameter."""
    each = bytes_text(count(case["shape"]) * case.dtype.bytes)
    shards = "" if case["shards"] == "rows" else "-columns"
    site = "" if case["site"] == "gather" else "-regather"
    return f"m{case['microbatches']}-l{case['layers']}-{each}{shards}{site}"


def problem(case: Case) -> Problem:
    """Ports ("shard", l) -> ("full", m, l); the block of (m, l) needs its parameter and comes after the one before.

    The last microbatch's segments are listed first: turned round for the backward, the first one's come first.
    """
    microbatches, layers = range(case["microbatches"]), case["layers"]
    order = tuple(range(layers)) if case["site"] == "gather" else tuple(reversed(range(layers)))
    before = {b: a for a, b in pairwise(order)}
    blocks = [
        Segment(
            name=("block", m, layer),
            needs=(("full", m, layer),),
            after=(("block", m, before[layer]),) if layer in before else (),
        )
        for m in reversed(microbatches)
        for layer in order
    ]
    axis, shape = AXIS[case["shards"]], case["shape"]
    shard = tuple(n // case.ranks if i == axis else n for i, n in enumerate(shape))
    shards = tuple(("shard", layer) for layer in order)
    held = PortSpec(shape=shard, dtype=case.dtype, placement=Placement.VARYING, cotangent=Placement.VARYING)
    full = PortSpec(shape=shape, dtype=case.dtype, placement=Placement.REPLICATE, cotangent=Placement.PARTIAL)
    return Problem(
        case=case,
        inputs={port: held for port in shards},
        outputs={("full", m, layer): full for m in microbatches for layer in order},
        segments=(Segment(name=("parameters",), gives=shards), *blocks),
        parameters={
            **of_every_problem(case),
            "microbatches": case["microbatches"],
            "layers": layers,
            "layer_order": order,
            "shape": shape,
            "shard_shape": shard,
            "shard_axis": axis,
            "element_bytes": case.dtype.bytes,
        },
    )


def reference(io: IO, p: Any) -> None:
    """Each parameter gathered once, for all microbatches."""
    for layer in p.layer_order:
        full = all_gather(io.read("shard", layer), p.shard_axis)
        for m in range(p.microbatches):
            io.write("full", m, layer, full)


def has_backward(case: Case) -> bool:
    """The gradients of the forward pass are summed and handed out; those of what is gathered again are the same."""
    return bool(case["site"] == "gather")


def equals_backward(case: Case) -> Case | None:
    """None: nothing else adds over microbatches and hands out the sum over ranks."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes of all M * L whole parameters that a rank's blocks need."""
    return int(case["microbatches"] * case["layers"] * count(case["shape"]) * case.dtype.bytes)


bus_factor = one_way_factor


def proxy(large: Case) -> dict[str, Any]:
    """At most two microbatches of two layers, of the same shape up to what divides over fewer ranks."""
    fewer = {name: min(large[name], 2) for name in ("microbatches", "layers")}
    shape = list(large["shape"])
    axis = AXIS[large["shards"]]
    shape[axis] = divisible(shape[axis], fewer_ranks(large)["ranks"])
    return {**fewer, "shape": shape, "shards": large["shards"], "site": large["site"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"microbatches": 2, "layers": 3, "shape": [6 * ranks, 5]}
    rows, columns = 14336, 4096  # of an MLP of Llama 7B
    train = {"microbatches": 4, "layers": 16, "shape": [divisible(rows, ranks), columns]}
    cut = {**train, "layers": 2, "shape": [columns, divisible(rows, ranks)], "shards": "columns"}
    return {
        "small": small,
        "train": train,
        "train-columns": cut,
        "train-regather": {**train, "site": "regather"},
    }
