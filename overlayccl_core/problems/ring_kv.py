"""ring_kv: keys and values of a sequence, in pieces on the ranks; attention needs them whole on every rank.

Context parallelism by gathering (Grattafiori et al. 2024, The Llama 3 herd of models, section 3.3.2). Ring
attention (Liu et al. 2023) does the same exchange by a ring of neighbours. Every rank attends with its own queries,
so its gradient of the whole is its own part of a sum: the backward is a reduce_scatter along the sequence.
"""

from typing import Any

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue, count, divisible, fewer_ranks, one_way_factor
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_gather
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

SLOTS = 2  # 0: keys, 1: values
SEQUENCE = 1  # axis


class Entry(Fields):
    """The sequence must divide over the ranks."""

    heads: Count = Field(description="heads of keys, and of values")
    sequence: Count = Field(description="positions of the whole sequence")
    head_dim: Count = Field(description="elements of a position in a head")


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    if entry.sequence % ranks:
        raise ValueError(
            f"sequence must divide over the ranks (got {entry.sequence} over {ranks}): "
            f"pad it to {divisible(entry.sequence, ranks)}"
        )
    return entry.model_dump()


def name(case: Case) -> str:
    """h4-s256-64KiB: heads, positions, bytes of all keys (as many as of all values)."""
    each = bytes_text(count(_whole(case)) * case.dtype.bytes)
    return f"h{case['heads']}-s{case['sequence']}-{each}"


def _whole(case: Case) -> tuple[int, int, int]:
    return case["heads"], case["sequence"], case["head_dim"]


def problem(case: Case) -> Problem:
    """Ports ("shard", slot) -> ("full", slot), of (heads, positions, head_dim); slot 0: keys, 1: values."""
    heads, sequence, head_dim = whole = _whole(case)
    part = (heads, sequence // case.ranks, head_dim)
    shard = PortSpec(shape=part, dtype=case.dtype, placement=Placement.VARYING, cotangent=Placement.VARYING)
    full = PortSpec(shape=whole, dtype=case.dtype, placement=Placement.REPLICATE, cotangent=Placement.PARTIAL)
    shards = tuple(("shard", slot) for slot in range(SLOTS))
    fulls = tuple(("full", slot) for slot in range(SLOTS))
    return Problem(
        case=case,
        inputs=dict.fromkeys(shards, shard),
        outputs=dict.fromkeys(fulls, full),
        segments=(Segment(name=("projection",), gives=shards), Segment(name=("attention",), needs=fulls)),
        parameters={
            **of_every_problem(case),
            "slots": SLOTS,
            "heads": heads,
            "sequence": sequence,
            "head_dim": head_dim,
            "shard_shape": part,
            "shape": whole,
        },
    )


def reference(io: IO, p: Any) -> None:
    """Keys, then values, gathered along the sequence."""
    for slot in range(p.slots):
        io.write("full", slot, all_gather(io.read("shard", slot), SEQUENCE))


def has_backward(case: Case) -> bool:
    """Every rank's part of the gradients is summed and handed out."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: nothing else sums and hands out along an axis."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes of all keys and values."""
    return int(SLOTS * count(_whole(case)) * case.dtype.bytes)


bus_factor = one_way_factor


def proxy(large: Case) -> dict[str, Any]:
    """At most two heads, of as many positions up to what divides over fewer ranks."""
    sequence = divisible(large["sequence"], fewer_ranks(large)["ranks"])
    return {"heads": min(large["heads"], 2), "sequence": sequence, "head_dim": large["head_dim"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"heads": 3, "sequence": 6 * ranks, "head_dim": 5}
    train = {"heads": 32, "sequence": divisible(2048, ranks), "head_dim": 128}  # Llama 7B
    return {"small": small, "train": train}
