"""halo: every rank has a part of a row and needs the edges of its neighbours' parts beside it.

The exchange before a convolution along a sequence that is cut over the ranks. At both ends of the row there are
zeros. Its backward adds what the neighbours made of the edges to the edges.
"""

from typing import Any

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.language import collective_permute, concat, slice_axis
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO


class Entry(Fields):
    """An edge is no longer than a part."""

    elements: Count = Field(description="elements of a rank's part")
    edge: Count = Field(description="elements of each neighbour that a rank needs")


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    if entry.edge > entry.elements:
        raise ValueError(
            f"edge is at most a part (got {entry.edge} of {entry.elements}): choose a shorter one"
        )
    return entry.model_dump()


def name(case: Case) -> str:
    """16KiB-e128: bytes of a part, elements of an edge."""
    return f"{bytes_text(case['elements'] * case.dtype.bytes)}-e{case['edge']}"


def problem(case: Case) -> Problem:
    """Ports ("part",) -> ("wide",): the left neighbour's edge, the part, the right neighbour's edge."""
    part = PortSpec(shape=(case["elements"],), dtype=case.dtype)
    wide = PortSpec(shape=(case["elements"] + 2 * case["edge"],), dtype=case.dtype)
    return Problem(
        case=case,
        inputs={("part",): part},
        outputs={("wide",): wide},
        segments=(
            Segment(name=("before",), gives=(("part",),)),
            Segment(name=("convolution",), needs=(("wide",),)),
        ),
        parameters={**of_every_problem(case), "elements": case["elements"], "edge": case["edge"]},
    )


def reference(io: IO, p: Any) -> None:
    """Each edge on its own."""
    part, last = io.read("part"), p.world_size - 1
    left = collective_permute(
        slice_axis(part, 0, p.elements - p.edge, p.edge), [(r, r + 1) for r in range(last)]
    )
    right = collective_permute(slice_axis(part, 0, 0, p.edge), [(r + 1, r) for r in range(last)])
    io.write("wide", concat([left, part, right]))


def has_backward(case: Case) -> bool:
    """What was read twice gets two gradients."""
    return True


def equals_backward(case: Case) -> Case | None:
    """None: it adds."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that a rank gives its neighbours."""
    return int(2 * case["edge"] * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw, as sendrecv in nccl-tests, doc/PERFORMANCE.md."""
    return 1.0


def proxy(large: Case) -> dict[str, Any]:
    """The same part."""
    return {"elements": large["elements"], "edge": large["edge"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    return {"small": {"elements": 8, "edge": 2}, "train": {"elements": 1024 * 1024, "edge": 4096}}
