"""all_to_next: every rank hands a flat buffer to the next one, all at once: rank i to rank i + 1.

The hand-over between the stages of a pipeline with a stage on each rank (ends open: the last rank sends to nobody,
the first receives nothing), or a step of a ring (round: the last rank sends to the first), as in ring attention. It
is the AllToNext of Cowan et al. 2023, MSCCLang. Only the last rank of a node sends to another node. With a network
card for each rank, all cards but one are idle then, unless the ranks share that buffer.

The backward hands the gradients to the rank before.
"""

from typing import Any, Self

from pydantic import Field, model_validator

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import Bytes, bytes_text
from overlayccl_core.program.case import Case, ParameterValue
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.language import collective_permute
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO


class Entry(Fields):
    """Give elements, or payload."""

    elements: Count | None = Field(default=None, description="of a rank's buffer")
    payload: Bytes | None = Field(default=None, description="bytes of a rank's buffer")
    round: bool = Field(
        default=False,
        description="the last rank sends to the first (default: the last sends to nobody, the first gets nothing)",
    )

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.payload is None) == (self.elements is None):
            raise ValueError("give either elements or payload")
        return self


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """elements: of a rank's buffer; round: 0 or 1."""
    if entry.payload is None:
        assert entry.elements is not None
        return {"elements": entry.elements, "round": int(entry.round)}
    elements, rest = divmod(entry.payload, dtype.bytes)
    if rest or elements == 0:
        raise ValueError(
            f"payload must be whole elements of {dtype.bytes} bytes (got {entry.payload}): choose a multiple of "
            f"{dtype.bytes}"
        )
    return {"elements": elements, "round": int(entry.round)}


def name(case: Case) -> str:
    """64KiB-round: bytes of a rank's buffer, and whether the last rank sends to the first."""
    return bytes_text(payload_bytes(case)) + ("-round" if case["round"] else "")


def problem(case: Case) -> Problem:
    """Ports ("given",) -> ("received",), both (elements,). With open ends, received is not valid on rank 0."""
    elements = case["elements"]
    port = PortSpec(shape=(elements,), dtype=case.dtype)
    first = elements if case["round"] else 0
    received = PortSpec(
        shape=(elements,), dtype=case.dtype, valid=(first, *(elements for _ in range(case.ranks - 1)))
    )
    return Problem(
        case=case,
        inputs={("given",): port},
        outputs={("received",): received},
        segments=(
            Segment(name=("mine",), gives=(("given",),)),
            Segment(name=("next",), needs=(("received",),)),
        ),
        parameters={**of_every_problem(case), "elements": elements, "round": case["round"]},
    )


def reference(io: IO, p: Any) -> None:
    """Each rank sends to the next."""
    n = p.world_size
    pairs = [(r, (r + 1) % n) for r in range(n if p.round else n - 1)]
    io.write("received", collective_permute(io.read("given"), pairs))


def has_backward(case: Case) -> bool:
    """The gradients go to the rank before."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: nothing else sends to the rank before."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that a rank hands over."""
    return int(case["elements"] * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw, as sendrecv in nccl-tests, doc/PERFORMANCE.md."""
    return 1.0


def proxy(large: Case) -> dict[str, Any]:
    """The same buffer."""
    return {"elements": large["elements"], "round": bool(large["round"])}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    train = {"elements": 2048 * 4096}  # activations of Llama 7B, one sequence
    return {"small": {"elements": 7}, "train": train, "train-round": {**train, "round": True}}
