"""grad_ar: the gradients of replicated parameters, different on every rank; each must become its mean.

Data parallelism. The gradients are there after the backward pass, or (`overlap`) one after another in it, the
last tensor's first; the optimizer needs all means. Tensors are given flat: only their sizes matter here.
"""

from collections.abc import Mapping
from math import gcd
from typing import Any

from overlayccl_core.program.case import Case, bytes_text, fewer_ranks, parameters
from overlayccl_core.program.entry import Entry
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_reduce, scale
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.recorder import IO

NAME = "grad_ar"
PROXY_TENSORS = 8


def case(
    entry: Mapping[str, Any],
    *,
    ranks: int,
    ranks_per_node: int,
    groups: int = 1,
    strided: bool = False,
    dtype: str = "float32",
) -> Case:
    """{sizes: elements of each tensor} or {tensors: {count, smallest, largest}}; overlap: true | false."""
    fields = Entry(NAME, entry, known=("sizes", "tensors", "overlap"))
    item = DType(dtype).bytes
    sizes = fields.counts("sizes") if "sizes" in fields else _spread(fields, item)
    overlap = fields.flag("overlap")
    return Case(
        problem=NAME,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        dtype=DType(dtype),
        groups=groups,
        strided=strided,
        name=f"t{len(sizes)}-{bytes_text(sum(sizes) * item)}" + ("-overlap" if overlap else ""),
        parameters=parameters({"sizes": sizes, "overlap": int(overlap)}),
    )


def _spread(fields: Entry, item_bytes: int) -> tuple[int, ...]:
    """Sizes of `count` tensors, log-spaced from smallest to largest, in a mixed order as in a model."""
    tensors = fields.value("tensors")
    if not isinstance(tensors, Mapping):
        raise fields.error(f"tensors must hold count, smallest and largest (got {tensors!r})")
    inner = Entry(f"{NAME}: tensors", tensors, known=("count", "smallest", "largest"))
    count = inner.count("count")
    first, last = inner.payload_bytes("smallest") // item_bytes, inner.payload_bytes("largest") // item_bytes
    if not 1 <= first <= last:
        raise inner.error(
            f"smallest must hold an element and be at most largest (got {first} and {last} elements)"
        )
    growth = (last / first) ** (1 / max(count - 1, 1))
    stride = next(s for s in range(max(count * 5 // 13, 1), count + 2) if gcd(s, count) == 1)
    return tuple(round(first * growth ** (i * stride % count)) for i in range(count))


def problem(case: Case) -> Problem:
    """Ports ("gradient", i) -> ("mean", i)."""
    sizes = case["sizes"]
    tensors = range(len(sizes))
    gradients = tuple(("gradient", i) for i in tensors)
    order = tuple(reversed(tensors)) if case["overlap"] else tuple(tensors)
    if case["overlap"]:
        work = tuple(
            Segment(
                name=("backward", i),
                gives=(("gradient", i),),
                after=(("backward", i + 1),) if i + 1 < len(sizes) else (),
            )
            for i in order
        )
    else:
        work = (Segment(name=("backward",), gives=gradients),)
    means = tuple(("mean", i) for i in tensors)
    return Problem(
        case=case,
        inputs={
            port: PortSpec(shape=(n,), dtype=case.dtype, placement=Placement.VARYING)
            for port, n in zip(gradients, sizes, strict=True)
        },
        outputs={
            port: PortSpec(shape=(n,), dtype=case.dtype, placement=Placement.REPLICATE)
            for port, n in zip(means, sizes, strict=True)
        },
        segments=(*work, Segment(name=("optimizer",), needs=means)),
        parameters={
            "world_size": case.ranks,
            "ranks_per_node": case.ranks_per_node,
            "sizes": sizes,
            "tensor_order": order,
            "element_bytes": case.dtype.bytes,
            "dtype": case.dtype.value,
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


def bus_factor(case: Case) -> float:
    """busbw = algbw * 2 (n - 1) / n, as all_reduce in nccl-tests, doc/PERFORMANCE.md."""
    return 2 * (case.ranks - 1) / case.ranks


def proxy(large: Case) -> Case | None:
    """Every so-many-th tensor, on few ranks."""
    sizes = large["sizes"]
    kept = min(len(sizes), PROXY_TENSORS)
    fewer = [sizes[i * len(sizes) // kept] for i in range(kept)]
    small = case({"sizes": fewer, "overlap": bool(large["overlap"])}, **fewer_ranks(large))
    return None if small == large else small
