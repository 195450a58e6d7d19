"""shift: every rank hands its activations to the next one, the last to the first.

A turn of a pipeline that is a ring. Its backward hands the gradients back.
"""

from typing import Any

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import collective_permute
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO


class Entry(Fields):
    """Any number of ranks fits."""

    microbatches: Count = Field(description="activations that are handed on")
    elements: Count = Field(description="elements of each")


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    return entry.model_dump()


def name(case: Case) -> str:
    """m4-32KiB: microbatches, bytes of each."""
    return f"m{case['microbatches']}-{bytes_text(case['elements'] * case.dtype.bytes)}"


def problem(case: Case) -> Problem:
    """Ports ("sent", m) -> ("received", m)."""
    port = PortSpec(
        shape=(case["elements"],),
        dtype=case.dtype,
        placement=Placement.VARYING,
        cotangent=Placement.VARYING,
    )
    each = range(case["microbatches"])
    return Problem(
        case=case,
        inputs={("sent", m): port for m in each},
        outputs={("received", m): port for m in each},
        segments=(
            *(Segment(name=("stage", m), gives=(("sent", m),)) for m in each),
            *(Segment(name=("next", m), needs=(("received", m),)) for m in each),
        ),
        parameters={
            **of_every_problem(case),
            "microbatches": case["microbatches"],
        },
    )


def reference(io: IO, p: Any) -> None:
    """Each on its own."""
    n = p.world_size
    for m in range(p.microbatches):
        io.write("received", m, collective_permute(io.read("sent", m), [(r, (r + 1) % n) for r in range(n)]))


def has_backward(case: Case) -> bool:
    """The gradients go back the way the activations came."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: it turns the other way."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that a rank hands on."""
    return int(case["microbatches"] * case["elements"] * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw, as sendrecv in nccl-tests, doc/PERFORMANCE.md."""
    return 1.0


def proxy(large: Case) -> dict[str, Any]:
    """At most two microbatches."""
    return {"microbatches": min(large["microbatches"], 2), "elements": large["elements"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    return {
        "small": {"microbatches": 3, "elements": 6},
        "train": {"microbatches": 4, "elements": 2048 * 4096},
    }
