"""captured: calls of somebody's training step, in their dependencies, where no other Problem fits.

`overlayccl capture` writes the entries. A call of the script is an input and an output here; the model's own work
gives the input once the calls that it was made from are done. Calls of the backward pass are later calls of the
same step: a captured Problem has no backward of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pydantic import Field, field_validator

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.language import all_gather, all_reduce, all_to_all, reduce_scatter, scale
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

SUM, MEAN, GATHER, SCATTER_SUM, SCATTER_MEAN, EXCHANGE = range(6)
KINDS = (
    "all_reduce_sum",
    "all_reduce_avg",
    "all_gather",
    "reduce_scatter_sum",
    "reduce_scatter_avg",
    "all_to_all",
)
"""By the numbers above."""
PROXY_CALLS = 12


class CapturedCall(Fields):
    """One call."""

    kind: str = Field(description=f"one of {', '.join(KINDS)}")
    elements: Count = Field(description="elements that a rank gives")
    after: tuple[int, ...] = Field(
        default=(), description="earlier calls, counted from 0, that it is made from"
    )

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"one of {', '.join(KINDS)} (got {kind!r})")
        return kind


class Entry(Fields):
    """The calls in the order of the script; any number of ranks that divides what is split fits."""

    calls: tuple[CapturedCall, ...] = Field(min_length=1, description="the calls, in the order of the script")


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """kinds, sizes: of each call; after: for each call the number of calls that it is made from, then these."""
    for number, call in enumerate(entry.calls):
        if call.kind not in KINDS[: GATHER + 1] and call.elements % ranks:
            raise ValueError(
                f"calls: call {number} splits {call.elements} elements over {ranks} ranks: give a multiple of "
                f"{ranks}"
            )
        if any(not 0 <= one < number for one in call.after):
            raise ValueError(f"calls: call {number} is made from {call.after}: name earlier calls, from 0 on")
    return {
        "kinds": tuple(KINDS.index(call.kind) for call in entry.calls),
        "sizes": tuple(call.elements for call in entry.calls),
        "after": tuple(n for call in entry.calls for n in (len(call.after), *sorted(call.after))),
    }


def name(case: Case) -> str:
    """all_reduce_sum-92160: a call and its elements. c16-5.6MiB-3f2a9c: calls, what a rank gives, and a digest."""
    if len(case["sizes"]) == 1:
        return f"{KINDS[case['kinds'][0]]}-{case['sizes'][0]}"
    digest = sha256(repr([case["kinds"], case["sizes"], case["after"]]).encode()).hexdigest()[:6]
    return f"c{len(case['sizes'])}-{bytes_text(payload_bytes(case))}-{digest}"


def problem(case: Case) -> Problem:
    """Ports ("given", i) -> ("result", i)."""
    kinds, sizes, after = case["kinds"], case["sizes"], list(_after(case["after"]))
    depths: list[int] = []
    for before in after:
        depths.append(1 + max((depths[j] for j in before), default=-1))
    results = tuple(("result", i) for i in range(len(sizes)))
    return Problem(
        case=case,
        inputs={
            ("given", i): PortSpec(shape=(n,), dtype=case.dtype, placement=Placement.VARYING)
            for i, n in enumerate(sizes)
        },
        outputs={
            ("result", i): PortSpec(
                shape=(_result(kind, n, case.ranks),),
                dtype=case.dtype,
                placement=Placement.REPLICATE if kind in (SUM, MEAN, GATHER) else Placement.VARYING,
            )
            for i, (kind, n) in enumerate(zip(kinds, sizes, strict=True))
        },
        segments=(
            *(
                Segment(name=("work", i), needs=tuple(("result", j) for j in before), gives=(("given", i),))
                for i, before in enumerate(after)
            ),
            Segment(name=("rest",), needs=results),
        ),
        parameters={
            **of_every_problem(case),
            "kinds": kinds,
            "sizes": sizes,
            "depths": tuple(depths),
            "element_bytes": case.dtype.bytes,
        },
    )


def reference(io: IO, p: Any) -> None:
    """The calls of the script, in its order."""
    for i, kind in enumerate(p.kinds):
        x = io.read("given", i)
        if kind == GATHER:
            y = all_gather(x)
        elif kind == EXCHANGE:
            y = all_to_all(x)
        else:
            y = all_reduce(x, "sum") if kind in (SUM, MEAN) else reduce_scatter(x)
        io.write("result", i, scale(y, 1, p.world_size) if kind in (MEAN, SCATTER_MEAN) else y)


def has_backward(case: Case) -> bool:
    """The calls of the backward pass are calls of the step."""
    return False


def equals_backward(case: Case) -> Case | None:
    """None: there is no backward."""
    return None


def payload_bytes(case: Case) -> int:
    """Bytes that a rank gives in all calls."""
    return int(sum(case["sizes"]) * case.dtype.bytes)


def bus_factor(case: Case) -> float:
    """The mean of the calls' own factors by bytes, as nccl-tests (doc/PERFORMANCE.md) has them."""
    share = (case.ranks - 1) / case.ranks
    factors = {SUM: 2 * share, MEAN: 2 * share, GATHER: case.ranks - 1}
    weighted = sum(factors.get(k, share) * n for k, n in zip(case["kinds"], case["sizes"], strict=True))
    return float(weighted / sum(case["sizes"]))


def proxy(large: Case) -> dict[str, Any]:
    """The first calls."""
    return {"calls": calls_of(large)[:PROXY_CALLS]}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    block = [
        {"kind": "all_reduce_sum", "elements": 92160, "after": [i] if i >= 0 else []} for i in range(-1, 15)
    ]
    mixed = [
        {"kind": "all_gather", "elements": 3},
        {"kind": "all_gather", "elements": 5},
        {"kind": "all_reduce_sum", "elements": 7, "after": [0]},
        {"kind": "all_reduce_avg", "elements": 7, "after": [0, 1]},
        {"kind": "reduce_scatter_avg", "elements": 2 * ranks, "after": [2]},
        {"kind": "reduce_scatter_sum", "elements": 3 * ranks, "after": [2, 3]},
        {"kind": "all_to_all", "elements": 2 * ranks, "after": [4]},
        {"kind": "all_to_all", "elements": ranks, "after": [4]},
    ]
    return {"small": {"calls": mixed}, "train": {"calls": block}}


def _result(kind: int, size: int, ranks: int) -> int:
    return {GATHER: size * ranks, SCATTER_SUM: size // ranks, SCATTER_MEAN: size // ranks}.get(kind, size)


def _after(counted: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The calls that each call is made from."""
    at = 0
    while at < len(counted):
        end = at + 1 + counted[at]
        yield tuple(counted[at + 1 : end])
        at = end


def calls_of(case: Case | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of an entry, out of a Case or its parameters."""
    of_each = zip(case["kinds"], case["sizes"], _after(case["after"]), strict=True)
    return [{"kind": KINDS[kind], "elements": n, "after": list(before)} for kind, n, before in of_each]
