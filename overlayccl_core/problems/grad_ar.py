"""grad_ar: the gradients of replicated parameters, different on every rank; each must become its mean.

Data parallelism. The gradients are there after the backward pass, or (`overlap`) one after another in it, the
last tensor's first; the optimizer needs all means. Tensors are given flat: only their sizes matter here.
"""

from dataclasses import replace
from math import gcd
from typing import Any, Self

from pydantic import Field, model_validator

from overlayccl_core.configuration.fields import Count, Fields, OfTensors
from overlayccl_core.configuration.sizes import Bytes, bytes_text
from overlayccl_core.program.case import Case, ParameterValue, all_reduce_factor
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_reduce, scale
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

PROXY_TENSORS = 8


class Tensors(Fields):
    """So many tensors, log-spaced from the smallest to the largest."""

    count: Count = Field(description="how many tensors")
    smallest: Bytes = Field(description="bytes of the smallest tensor")
    largest: Bytes = Field(description="bytes of the largest tensor")


class Entry(OfTensors):
    """Give sizes or tensors; any number of ranks fits."""

    tensors: Tensors | None = Field(
        default=None, description="{count, smallest, largest}, the last two in bytes"
    )
    overlap: bool = Field(
        default=False,
        description="true if gradients come one after another in the backward pass (default: false)",
    )

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if bool(self.sizes) == (self.tensors is not None):
            raise ValueError(
                "give either sizes or tensors: elements of each tensor, or {count, smallest, largest}"
            )
        return self


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """sizes: elements of each tensor; overlap: 0 or 1."""
    sizes = entry.sizes if entry.tensors is None else _spread(entry.tensors, dtype.bytes)
    return {"sizes": sizes, "overlap": int(entry.overlap)}


def _spread(tensors: Tensors, item_bytes: int) -> tuple[int, ...]:
    """Log-spaced sizes in a mixed order, as in a model."""
    n, first, last = tensors.count, tensors.smallest // item_bytes, tensors.largest // item_bytes
    if not 1 <= first <= last:
        raise ValueError(
            f"tensors: smallest must hold an element and be at most largest (got {first} and {last} elements): "
            "change one of the two"
        )
    growth = (last / first) ** (1 / max(n - 1, 1))
    stride = next(s for s in range(max(n * 5 // 13, 1), n + 2) if gcd(s, n) == 1)
    return tuple(round(first * growth ** (i * stride % n)) for i in range(n))


def name(case: Case) -> str:
    """t40-12.5MiB, or t40-12.5MiB-overlap: tensors, bytes of them all."""
    total = bytes_text(sum(case["sizes"]) * case.dtype.bytes)
    return f"t{len(case['sizes'])}-{total}" + ("-overlap" if case["overlap"] else "")


def problem(case: Case) -> Problem:
    """Ports ("gradient", i) -> ("mean", i)."""
    sizes = case["sizes"]
    tensors = range(len(sizes))
    order = tuple(reversed(tensors)) if case["overlap"] else tuple(tensors)
    gradients, means = (tuple((name, i) for i in tensors) for name in ("gradient", "mean"))
    work = [Segment(name=("backward",), gives=gradients)]
    if case["overlap"]:
        after = {i: (("backward", i + 1),) for i in tensors[:-1]}
        work = [Segment(name=("backward", i), gives=(gradients[i],), after=after.get(i, ())) for i in order]
    flat = [PortSpec(shape=(n,), dtype=case.dtype) for n in sizes]
    mean = [replace(spec, placement=Placement.REPLICATE) for spec in flat]
    return Problem(
        case=case,
        inputs=dict(zip(gradients, flat, strict=True)),
        outputs=dict(zip(means, mean, strict=True)),
        segments=(*work, Segment(name=("optimizer",), needs=means)),
        parameters={
            **of_every_problem(case),
            "sizes": sizes,
            "tensor_order": order,
            "element_bytes": case.dtype.bytes,
        },
    )


def reference(io: IO, p: Any) -> None:
    """Each gradient summed over ranks and divided by their number."""
    for i in p.tensor_order:
        io.write("mean", i, scale(all_reduce(io.read("gradient", i), "sum"), 1, p.world_size))


def has_backward(case: Case) -> bool:
    """Nothing comes after the optimizer."""
    return False


def equals_backward(case: Case) -> Case | None:
    """None: there is no backward."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes of all gradients of a rank."""
    return int(sum(case["sizes"]) * case.dtype.bytes)


bus_factor = all_reduce_factor


def proxy(large: Case) -> dict[str, Any]:
    """Every so-many-th tensor."""
    sizes = large["sizes"]
    kept = min(len(sizes), PROXY_TENSORS)
    fewer = [sizes[i * len(sizes) // kept] for i in range(kept)]
    return {"sizes": fewer, "overlap": bool(large["overlap"])}


# A Llama of 331 million parameters; of each layer: norm, attention, norm, MLP.
_WIDTH, _HIDDEN, _VOCABULARY = 2048, 5376, 32256
_LAYER = (_WIDTH, 3 * _WIDTH**2, _WIDTH**2, _WIDTH, 2 * _HIDDEN * _WIDTH, _HIDDEN * _WIDTH)


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    train = {"sizes": [_VOCABULARY * _WIDTH, *_LAYER * 4, _WIDTH, _VOCABULARY * _WIDTH]}
    small = {"sizes": [7, 64, 1, 33]}
    return {"small": small, "train": train, "train-overlap": {**train, "overlap": True}}
