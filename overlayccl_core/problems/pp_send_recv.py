"""pp_send_recv: two stages of a pipeline, on the first and on the second half of the ranks.

Rank r of the first half hands the activations of M microbatches to rank r + N/2, which hands their gradients back.
Forward and backward are ONE Problem, so that a Program may send an activation and a gradient in one exchange. The
model's work between them is

    first_forward(m)   gives a(m)
    second(m)          needs b(m), the activation; gives ga(m), its gradient
    first_backward(m)  needs gb(m)

Schedules: `gpipe` has no more edges (Huang et al. 2019); `1f1b` holds two microbatches at most, so first_forward(m)
comes after first_backward(m - 2) (Narayanan et al. 2019, PipeDream).
"""

from typing import Any, Literal

from pydantic import Field

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue, count
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.language import collective_permute
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

STAGES = 2


class Entry(Fields):
    """The ranks must be even: rank r pairs with rank r + ranks / 2."""

    microbatches: Count = Field(description="microbatches of a step")
    shape: tuple[Count, ...] = Field(min_length=1, description="[batch, sequence, width] of an activation")
    schedule: Literal["gpipe", "1f1b"] = Field(
        default="gpipe",
        description="gpipe: all microbatches may be under way (the default); 1f1b: two of them",
    )


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """The entry's own fields."""
    if ranks % STAGES:
        raise ValueError(
            f"ranks must be even, as rank r pairs with rank r + ranks / 2 (got {ranks}): choose {ranks + 1}"
            + (f" or {ranks - 1}" if ranks > STAGES + 1 else "")
        )
    return entry.model_dump()


def name(case: Case) -> str:
    """m4-32KiB-1f1b: microbatches, bytes of an activation, schedule."""
    each = bytes_text(count(case["shape"]) * case.dtype.bytes)
    return f"m{case['microbatches']}-{each}-{case['schedule']}"


def problem(case: Case) -> Problem:
    """Ports ("a", m) -> ("b", m) and ("ga", m) -> ("gb", m); a and gb are valid on the first half, ga and b on the
    second."""
    microbatches, half, size = case["microbatches"], case.ranks // STAGES, count(case["shape"])
    first = PortSpec(shape=case["shape"], dtype=case.dtype, valid=(size,) * half + (0,) * half)
    second = PortSpec(shape=case["shape"], dtype=case.dtype, valid=(0,) * half + (size,) * half)
    held = microbatches if case["schedule"] == "gpipe" else min(STAGES, microbatches)
    each = range(microbatches)
    return Problem(
        case=case,
        inputs={port: spec for m in each for port, spec in ((("a", m), first), (("ga", m), second))},
        outputs={port: spec for m in each for port, spec in ((("b", m), second), (("gb", m), first))},
        segments=tuple(s for m in range(microbatches + held) for s in _turn(m, microbatches, held)),
        parameters={
            **of_every_problem(case),
            "microbatches": microbatches,
            "held": held,
            "shape": case["shape"],
            "elements": size,
        },
    )


def _turn(m: int, microbatches: int, held: int) -> list[Segment]:
    """Microbatch m - held is finished before m begins, where there are these."""
    done = m - held
    finished = [
        Segment(name=("second", done), needs=(("b", done),), gives=(("ga", done),)),
        Segment(name=("first_backward", done), needs=(("gb", done),)),
    ]
    begun = Segment(
        name=("first_forward", m), gives=(("a", m),), after=(("first_backward", done),) if done >= 0 else ()
    )
    return (finished if done >= 0 else []) + ([begun] if m < microbatches else [])


def reference(io: IO, p: Any) -> None:
    """Each activation and each gradient handed over on its own, as the schedule has them."""
    half = p.world_size // STAGES
    onward = [(r, r + half) for r in range(half)]
    back = [(r + half, r) for r in range(half)]
    for m in range(p.microbatches + p.held):
        if m >= p.held:
            io.write("gb", m - p.held, collective_permute(io.read("ga", m - p.held), back))
        if m < p.microbatches:
            io.write("b", m, collective_permute(io.read("a", m), onward))


def has_backward(case: Case) -> bool:
    """It has both passes in it."""
    return False


def equals_backward(case: Case) -> Case | None:
    """None: there is no other pass."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that a rank hands over: M activations, or M gradients."""
    return int(case["microbatches"] * count(case["shape"]) * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """busbw = algbw, as sendrecv in nccl-tests, doc/PERFORMANCE.md."""
    return 1.0


def proxy(large: Case) -> dict[str, Any]:
    """At most four microbatches of the same shape: with fewer, 1f1b holds no one back twice."""
    microbatches = min(large["microbatches"], 4)
    return {"microbatches": microbatches, "shape": large["shape"], "schedule": large["schedule"]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    small = {"microbatches": 3, "shape": [1, 5, 7]}
    train = {"microbatches": 4, "shape": [1, 2048, 4096]}  # Llama 7B
    return {"small": small, "train": train, "train-1f1b": {**train, "schedule": "1f1b"}}
