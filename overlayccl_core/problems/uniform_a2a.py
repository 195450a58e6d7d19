"""uniform_a2a: every rank has N equal chunks, one for each rank; chunk j of rank i becomes chunk i of rank j.

The exchange of a mixture of experts with padded capacity, or of sequence parallelism. Its backward is the
same exchange of the gradients.
"""

from typing import Any, Self

from pydantic import Field, model_validator

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import Bytes, bytes_text
from overlayccl_core.program.case import Case, ParameterValue, count, one_way_factor
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_to_all
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO


class Entry(Fields):
    """Give chunk and width, or payload, which must divide over the ranks."""

    chunk: Count | None = Field(default=None, description="rows for one rank")
    width: Count | None = Field(default=None, description="elements of a row")
    payload: Bytes | None = Field(
        default=None, description="bytes of a rank, in rows of the width (default: one row a chunk)"
    )

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.payload is None) == (self.chunk is None):
            raise ValueError("give either payload, or chunk and width")
        if self.chunk is not None and self.width is None:
            raise ValueError("width must be there beside chunk: elements of a row")
        return self


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """chunk: rows for one rank; width: elements of a row."""
    if entry.payload is None:
        assert entry.chunk is not None and entry.width is not None
        return {"chunk": entry.chunk, "width": entry.width}
    elements, rest = divmod(entry.payload, ranks * dtype.bytes)
    width = entry.width or max(elements, 1)
    if rest or elements == 0 or elements % width:
        raise ValueError(
            f"payload must be ranks * rows * width * bytes of an element, in whole rows"
            f" (got {entry.payload} for {ranks} ranks, width {width}, {dtype.bytes} bytes):"
            f" choose a multiple of {ranks * width * dtype.bytes}"
        )
    return {"chunk": elements // width, "width": width}


def name(case: Case) -> str:
    """64KiB: bytes of a rank."""
    return bytes_text(payload_bytes(case))


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
        parameters={**of_every_problem(case), "chunk": case["chunk"], "width": case["width"]},
    )


def reference(io: IO, p: Any) -> None:
    """The library's own all_to_all."""
    io.write("received", all_to_all(io.read("send")))


def has_backward(case: Case) -> bool:
    """The gradients of the arrived chunks go back."""
    return True


def equals_backward(case: Case) -> Case | None:
    """The same exchange."""
    return case


def payload_bytes(case: Case) -> int:
    """Bytes of a rank's send buffer, its own chunk included."""
    return int(count((case.ranks, case["chunk"], case["width"])) * case.dtype.bytes)


bus_factor = one_way_factor


def proxy(large: Case) -> dict[str, Any]:
    """The same chunks."""
    return {"chunk": large["chunk"], "width": large["width"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    train = {"chunk": 10, "width": 2048}  # OLMoE: 256 tokens for 8 of 224 experts
    return {"small": {"chunk": 3, "width": 5}, "train": train}
