"""Calls as a profiler or a flight recorder saw them, from outside: what both tell, as rows of `captured_calls`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from overlayccl_core.observing.recorded import AnyCall, described
from overlayccl_core.process_group.parts import WRAPPERS, part_of
from overlayccl_core.tables.captured import CaptureSource

KINDS = {
    name.replace("_", ""): name
    for name in (
        *(
            "reduce_scatter",
            "all_reduce",
            "all_gather",
            "all_to_all",
            "broadcast",
            "reduce",
            "gather",
            "scatter",
        ),
        *("send", "recv", "barrier"),
    )
}
DTYPES = {
    **{"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16"},
    **{"int": "int32", "long": "int64", "longint": "int64", "short": "int16", "shortint": "int16"},
    **{"byte": "uint8", "unsignedchar": "uint8", "char": "int8", "signedchar": "int8", "bool": "bool"},
}
"""Torch's C++ names of dtypes, and those of its scalar types, without what is between the letters."""
TORCH = re.compile(r"(?:^|.*/(?:site|dist)-packages/)torch/")
REDUCES = ("all_reduce", "reduce_scatter", "reduce")


@dataclass(frozen=True, kw_only=True)
class SeenCall(AnyCall):
    """A call. Times in us, of the rank's own clock; None where the source does not tell."""

    issued: float
    call_us: float | None = None
    done: float | None = None


@dataclass(frozen=True, kw_only=True)
class SeenStep:
    """A training step; length None: not known."""

    begin: float
    step_us: float | None
    calls: Sequence[SeenCall]


@dataclass(frozen=True, kw_only=True)
class SeenRank:
    """What was seen on one rank. groups: name -> ranks, as far as they are known."""

    source: CaptureSource
    rank: int
    world_size: int
    groups: dict[str, list[int]]
    steps: Sequence[SeenStep]


def kind_of(name: str) -> str | None:
    """Return the collective that a library's name is of (`_allgather_base_`, `ALLTOALL_BASE`); None: of none."""
    letters = re.sub("[^a-z]", "", name.lower())
    return (
        "barrier"
        if "barrier" in letters
        else next((k for n, k in KINDS.items() if letters.startswith(n)), None)
    )


def dtype_of(name: str) -> str:
    """Return torch's name of a dtype, by a name such as `Float` or `c10::BFloat16`."""
    letters = re.sub("[^a-z0-9]", "", name.removeprefix("c10::").lower())
    return DTYPES.get(letters, letters)


def origin_of(frames: Iterable[tuple[str, int]]) -> tuple[str, str]:
    """Return (`file:line` of the script, part of torch), out of (file, line) of frames, the innermost first."""
    part, inner = "", ""
    for file, line in frames:
        inside = TORCH.sub("", file) if TORCH.match(file) else ""
        if inside:
            inner = inner or inside
            part = part or part_of(inside, inner)
        elif not file.startswith("<") and not file.endswith(WRAPPERS):
            return f"{file}:{line}", part
    return "", part


def rows(ranks: Iterable[SeenRank]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `captured_calls`."""
    for one in ranks:
        for number, step in enumerate(one.steps):
            for at, call in enumerate(step.calls):
                yield {"step": number, "call": at, **_row(one, step, call)}


def _row(rank: SeenRank, step: SeenStep, call: SeenCall) -> dict[str, Any]:
    return {
        "source": rank.source,
        "world_size": rank.world_size,
        "rank": rank.rank,
        **described(call),
        "reduction": None if call.kind in REDUCES else "",
        "uniform": None,
        "group_ranks": rank.groups.get(call.group, []),
        "partition": None,
        "parameters": [],
        "depends_on": None,
        "step_us": step.step_us,
        "issued_us": call.issued - step.begin,
        "call_us": call.call_us,
        "blocked_us": None,
        "used_us": None,
        "done_us": None if call.done is None else call.done - step.begin,
    }


def elements(shapes: Sequence[Sequence[int]]) -> int:
    """Return the elements of tensors of these shapes."""
    return sum(map(prod, shapes))
