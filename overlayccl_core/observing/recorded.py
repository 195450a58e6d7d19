"""What the ranks of somebody's script recorded, read from their files: strictly, and whole or not at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from overlayccl_core.process_group.parts import SKIPPED, TIMED
from overlayccl_core.tables.captured import CaptureSource
from overlayccl_core.tables.plain import rebuilt

BYTES = {
    **dict.fromkeys(("float64", "int64", "complex64"), 8), "complex128": 16,
    **dict.fromkeys(("float32", "int32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1), "": 0,
}  # fmt: skip
"""Bytes of an element by torch's name of a dtype; the float8 dtypes have 1."""
ON_HOST = ("cpu", "")
"""Devices whose calls are over when their waits are; "": no tensor."""


@dataclass(frozen=True, kw_only=True)
class AnyCall:
    """What every source tells of a call. device: None if it does not tell that."""

    kind: str
    dtype: str
    inputs: list[list[int]]
    outputs: list[list[int]]
    group: str
    line: str
    part: str
    device: str | None = None
    root: int | None = None
    peer: int | None = None
    input_splits: list[int] | None = None
    output_splits: list[int] | None = None


@dataclass(frozen=True, kw_only=True)
class Call(AnyCall):
    """A call as `process_group/recorder.py` wrote it. Times are of the rank's own clock, in ns."""

    step: int
    issued: int
    returned: int
    uniform: bool
    waits: list[tuple[int, int]]
    done: list[int]
    reduction: str = ""
    depends_on: list[int] | None = None


@dataclass(frozen=True, kw_only=True)
class DdpBucket:
    """A bucket of DDP."""

    bytes: int
    parameters: list[str]


@dataclass(frozen=True, kw_only=True)
class CapturedRank:
    """What one rank recorded.

    Attributes:
        groups: Name -> ranks of the groups that it calls in.
        made: Ranks of each group that the script made, in its order.
        ends: The ends of its training steps, from the first on.
    """

    rank: int
    ranks: int
    library: str
    groups: dict[str, list[int]]
    made: list[list[int]]
    ddp: list[DdpBucket]
    ends: list[int]
    calls: list[Call]


def recorded(folder: Path) -> list[CapturedRank]:
    """Return the records of all ranks, by rank.

    Raises:
        ValueError: Ranks are missing, or their records cannot be of one run.
    """
    found = sorted(
        (rebuilt(CapturedRank, file.read_bytes()) for file in folder.glob("rank-*.json")),
        key=lambda one: one.rank,
    )
    if not found:
        raise ValueError(
            "no rank recorded a step: the script never called init_process_group, or ended before "
            f"{SKIPPED + TIMED + 1} training steps (a step ends with optimizer.step())"
        )
    ranks = found[0].ranks
    if found[0].library == CaptureSource.FAKE:
        return found
    if missing := sorted(set(range(ranks)) - {one.rank for one in found}):
        raise ValueError(
            f"ranks {missing} of {ranks} recorded nothing: they ended early (their last lines are above), or wrote "
            "to another disk; --output must be on one that all nodes share"
        )
    return found


def rows(records: Sequence[CapturedRank]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `captured_calls`."""
    for record in records:
        counted: dict[int, int] = {}
        parameters = _parameters(record)
        firsts = {call.step: at for at, call in reversed(list(enumerate(record.calls)))}
        for call in record.calls:
            number = counted.get(call.step, 0)
            counted[call.step] = number + 1
            yield {**_row(record, call, number, firsts[call.step]), "parameters": next(parameters)}


def _row(record: CapturedRank, call: Call, number: int, first: int) -> dict[str, Any]:
    begin, end = record.ends[call.step - 1], record.ends[call.step]
    deps = call.depends_on
    fake = record.library == CaptureSource.FAKE
    timed = not fake and call.device in ON_HOST

    def since(ns: int) -> float:
        return (ns - begin) / 1e3

    return {
        "source": CaptureSource.FAKE if fake else CaptureSource.SCRIPT,
        "world_size": record.ranks,
        "rank": record.rank,
        "step": call.step,
        "call": number,
        **described(call),
        "reduction": call.reduction,
        "uniform": call.uniform,
        "group_ranks": record.groups[call.group],
        "partition": partition(record.groups[call.group], record.made, record.ranks) if fake else None,
        "depends_on": None if deps is None else [one - first for one in deps],
        "step_us": (end - begin) / 1e3,
        "issued_us": since(call.issued),
        "call_us": (call.returned - call.issued) / 1e3 if timed else None,
        "blocked_us": sum(after - before for before, after in call.waits) / 1e3 if timed else None,
        "used_us": since(call.waits[0][0]) if call.waits else None,
        "done_us": since(call.done[0]) if call.done and timed else None,
    }


def described(call: AnyCall) -> dict[str, Any]:
    """Return the fields of `captured_calls` that every source tells."""
    return {
        **{"kind": call.kind, "dtype": call.dtype, "device": call.device, "group": call.group},
        **{"line": call.line, "part": call.part, "root": call.root, "peer": call.peer},
        "inputs_bytes": bytes_of(call.inputs, call.dtype),
        "outputs_bytes": bytes_of(call.outputs, call.dtype),
        "shapes": ["x".join(map(str, shape)) for shape in call.inputs or call.outputs],
        "input_splits": call.input_splits or None,
        "output_splits": call.output_splits or None,
    }


def partition(group: Sequence[int], made: Sequence[Sequence[int]], ranks: int) -> list[int] | None:
    """Return the ranks of a group and its siblings: as many groups of its size, made one after the other.

    All ranks of a script make all groups in one order, those of a mesh's dimension in one loop.

    Args:
        made: All groups, as they were made.
        ranks: World size.

    Returns:
        All ranks, group by group; None if no such run of groups has each rank once.
    """
    if len(group) == ranks:
        return list(group)
    count = ranks // len(group)
    for at in range(len(made) - count + 1):
        run = made[at : at + count]
        together = [rank for one in run for rank in one]
        if (
            list(group) in map(list, run)
            and {*map(len, run)} == {len(group)}
            and {*together} == {*range(ranks)}
        ):
            return together
    return None


def _parameters(record: CapturedRank) -> Iterator[list[str]]:
    """Yield, for each call, the parameters of the DDP bucket that it sums, by its place among equal sizes."""
    seen: dict[tuple[int, int], int] = {}
    for call in record.calls:
        size = bytes_of(call.inputs, call.dtype)
        alike = [one.parameters for one in record.ddp if one.bytes == size]
        if call.part != "backward" or not alike:
            yield []
            continue
        number = seen.get((call.step, size), 0)
        seen[call.step, size] = number + 1
        yield alike[number % len(alike)]


def bytes_of(shapes: Sequence[Sequence[int]], dtype: str) -> int:
    """Return the bytes of tensors of these shapes."""
    return sum(map(prod, shapes)) * BYTES.get(dtype, 1)
