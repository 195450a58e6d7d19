"""What a deployment's library can do: the capabilities table as data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from overlayccl_core.program.calls import call_name
from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import NO_ORDER
from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import payload_bytes

# Of replica groups: their size, and the stride from a member to the next.
# Of a permute: how many ranks send, and how many ranks from there they are heard.
Shape = tuple[int, int]
TRIED_DTYPE = DType.FLOAT32  # in which every shape is tried
CALL_COLUMNS = ("operation", "group_size", "stride", "dtype", "payload_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the library. operation: as `operation_name` spells it; payload_bytes: on one rank, at the larger
    side."""

    operation: str
    shape: Shape
    dtype: DType
    payload_bytes: int

    def columns(self) -> dict[str, str | int]:
        """Those of CALL_COLUMNS in a row of a table."""
        told = (self.operation, *self.shape, self.dtype.value, self.payload_bytes)
        return dict(zip(CALL_COLUMNS, told, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One row: a call that was tried, and what came of it."""

    call: Call
    supported: bool
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Whether something can be called, and what says so."""

    supported: bool
    evidence: str


NOT_TRIED = Support(supported=False, evidence="the selftest did not try it")


class Capabilities:
    """The rows of a capabilities table.

    Supported is what was tried with success, at any payload below the smallest that failed. What was never
    tried is not supported. Of a dtype that was not tried with groups of a shape it is enough that both were tried
    apart: the shape in float32, the dtype with groups of another shape.
    """

    def __init__(self, rows: Iterable[Capability]) -> None:
        self._rows: dict[tuple[str, Shape, DType], list[Capability]] = {}
        for row in rows:
            self._rows.setdefault((row.call.operation, row.call.shape, row.call.dtype), []).append(row)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> "Capabilities":
        """From the rows of the table: `Capabilities.from_rows(frame.iter_rows(named=True))`."""
        return cls(
            Capability(
                call=Call(
                    operation=row["operation"],
                    shape=(row["group_size"], row["stride"]),
                    dtype=DType(row["dtype"]),
                    payload_bytes=row["payload_bytes"],
                ),
                supported=row["supported"],
                evidence=row["evidence"],
            )
            for row in rows
        )

    def of_shapes(self, groups: Mapping[Shape, Shape], permutes: Mapping[Shape, Shape]) -> "Capabilities":
        """The same library with groups of shape `groups[s]` called groups of s, permutes likewise; no others."""
        return Capabilities(
            replace(row, call=replace(row.call, shape=shape))
            for (operation, known, _), rows in self._rows.items()
            for shape, of in (permutes if operation == Kind.COLLECTIVE_PERMUTE else groups).items()
            if known == of
            for row in rows
        )

    def supports(self, call: Call) -> Support:
        """Whether the library takes a call."""
        if rows := self._rows.get((call.operation, call.shape, call.dtype)):
            return _judged(rows, call)
        shaped = self._rows.get((call.operation, call.shape, TRIED_DTYPE), [])
        typed = [
            row
            for (operation, _, dtype), rows in self._rows.items()
            for row in rows
            if (operation, dtype) == (call.operation, call.dtype)
        ]
        if not shaped or not typed:
            return NOT_TRIED
        refused = [one for rows in (shaped, typed) if not (one := _judged(rows, call)).supported]
        return (
            refused[0] if refused else Support(supported=True, evidence="groups and dtype were tried apart")
        )


def _judged(rows: Sequence[Capability], call: Call) -> Support:
    limits = [row for row in rows if not row.supported and row.call.payload_bytes <= call.payload_bytes]
    if limits:
        worst = min(limits, key=lambda row: row.call.payload_bytes)
        return Support(
            supported=False, evidence=f"failed at {worst.call.payload_bytes} bytes: {worst.evidence}"
        )
    worked = [row for row in rows if row.supported]
    return Support(supported=True, evidence=worked[0].evidence) if worked else NOT_TRIED


def call_of(call: Sequence[Node], case: Case) -> Call:
    """The call that does some collectives of a Case: its replica groups are those of the deployment's ranks.

    Where one call does several, its payload is theirs together.
    """
    return Call(
        operation=operation_name(call),
        shape=shape_of(call[0], case),
        dtype=call[0].dtype,
        payload_bytes=sum(map(payload_bytes, call)),
    )


def shape_of(node: Node, case: Case) -> Shape:
    """The shape of a collective among all ranks of the deployment."""
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return permute_shape(node.sources, case.groups, strided=case.strided)
    return node.groups.size, node.groups.stride * case.stride


class Pattern(StrEnum):
    """What a permute is, as far as a library may take one and refuse another. It may also go the other way."""

    RING = "ring"  # every rank to the next, the last to the first
    LINE = "line"  # every rank to the next, the last to nobody
    SWAP = "swap"  # every rank to the one half of all ranks away, and back
    HALF = "half"  # of each such two only one to the other
    ANY = "any"  # anything else


def permute_shapes(ranks: int) -> dict[Pattern, Shape]:
    """The shapes that permutes of so many ranks have. Two ranks swap in a ring."""
    shapes = {Pattern.RING: (ranks, 1), Pattern.LINE: (ranks - 1, 1), Pattern.ANY: (ranks, NO_ORDER)}
    if ranks % 2 == 0:
        shapes |= {Pattern.SWAP: (ranks, ranks // 2), Pattern.HALF: (ranks // 2, ranks // 2)}
    return shapes


@lru_cache(maxsize=4096)
def permute_shape(sources: tuple[int, ...], groups: int = 1, *, strided: bool = False) -> Shape:
    """The shape of a permute that so many groups of ranks run at once. sources: as of the node, in one group."""
    ranks, step = len(sources) * groups, groups if strided else 1
    far = {(r - source) * step % ranks for r, source in enumerate(sources) if source >= 0}
    shapes = permute_shapes(ranks)
    senders = groups * sum(source >= 0 for source in sources)
    alike = {(senders, min(d, ranks - d)) for d in far} if len(far) == 1 else set()
    return next((shape for shape in shapes.values() if shape in alike), shapes[Pattern.ANY])


def shape_text(shape: Shape) -> str:
    """`4`, `4, 8 ranks apart`, `4 in no order`."""
    size, stride = shape
    return f"{size}" + {1: "", NO_ORDER: " in no order"}.get(stride, f", {stride} ranks apart")


def operation_name(call: Sequence[Node]) -> str:
    """How the capabilities table names a call: `all_reduce`, with `_coalesced` where it does several collectives,
    and `_max` behind a reduction by maximum."""
    reduction = getattr(call[0].attr, "reduction", Reduction.SUM)
    return call_name(call) + ("_max" if reduction is Reduction.MAX else "")
