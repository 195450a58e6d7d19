"""uniform_a2a: every rank has N equal chunks, one for each rank; chunk j of rank i becomes chunk i of rank j.

The exchange of a mixture of experts with padded capacity, or of sequence parallelism. Its backward is the
same exchange of the gradients.
"""

from collections.abc import Mapping
from typing import Any

from overlayccl_core.program.case import Case, bytes_text, count, fewer_ranks, parameters
from overlayccl_core.program.entry import Entry
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_to_all
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.recorder import IO

NAME = "uniform_a2a"


def case(
    entry: Mapping[str, Any],
    *,
    ranks: int,
    ranks_per_node: int,
    groups: int = 1,
    strided: bool = False,
    dtype: str = "float32",
) -> Case:
    """{chunk: rows for one rank, width: elements of a row}, or {payload: bytes of a rank, width (default: one
    row a chunk)}, which must divide over the ranks."""
    fields = Entry(NAME, entry, known=("chunk", "width", "payload"))
    item = DType(dtype).bytes
    if "payload" in fields:
        chunk, width = _from_payload(fields, ranks, item)
    else:
        chunk, width = fields.count("chunk"), fields.count("width")
    return Case(
        problem=NAME,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        dtype=DType(dtype),
        groups=groups,
        strided=strided,
        name=bytes_text(ranks * chunk * width * item),
        parameters=parameters({"chunk": chunk, "width": width}),
    )


def _from_payload(fields: Entry, ranks: int, item_bytes: int) -> tuple[int, int]:
    if "chunk" in fields:
        raise fields.error("give payload, or chunk and width: not payload and chunk")
    payload = fields.payload_bytes("payload")
    elements, rest = divmod(payload, ranks * item_bytes)
    width = fields.count("width", default=max(elements, 1))
    if rest or elements == 0 or elements % width:
        raise fields.error(
            f"payload must be ranks * rows * width * bytes of an element, in whole rows"
            f" (got {payload} for {ranks} ranks, width {width}, {item_bytes} bytes):"
            f" choose a multiple of {ranks * width * item_bytes}"
        )
    return elements // width, width


def problem(case: Case) -> Problem:
    """Ports ("send",) -> ("received",), both (N * chunk, width): by destination, then by source."""
    shape = (case.ranks * case["chunk"], case["width"])
    port = PortSpec(shape=shape, dtype=case.dtype, placement=Placement.VARYING, cotangent=Placement.VARYING)
    return Problem(
        case=case,
        inputs={("send",): port},
        outputs={("received",): port},
        segments=(
            Segment(name=("route",), gives=(("send",),)),
            Segment(name=("experts",), needs=(("received",),)),
        ),
        parameters={
            "world_size": case.ranks,
            "ranks_per_node": case.ranks_per_node,
            "chunk": case["chunk"],
            "width": case["width"],
            "dtype": case.dtype.value,
        },
    )


def reference(io: IO, p: Any) -> None:
    """The library's own all_to_all."""
    io.write("received", all_to_all(io.read("send")))


def has_backward(case: Case) -> bool:
    """The gradients of what arrived go back the way they came."""
    return True


def equals_backward(case: Case) -> Case | None:
    """The same exchange."""
    return case


def payload_bytes(case: Case) -> int:
    """Bytes of a rank's send buffer, its own chunk included."""
    return int(count((case.ranks, case["chunk"], case["width"])) * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw * (n - 1) / n, as alltoall in nccl-tests, doc/PERFORMANCE.md."""
    return (case.ranks - 1) / case.ranks


def proxy(large: Case) -> Case | None:
    """The same chunks between few ranks."""
    small = case({"chunk": large["chunk"], "width": large["width"]}, **fewer_ranks(large))
    return None if small == large else small
