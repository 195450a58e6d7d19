"""Capabilities of a deployment's library: the capabilities table as data."""

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
from overlayccl_core.program.program import Program

# Of replica groups: their size, and the stride between members.
# Of a permute: the number of senders, and the distance in ranks to their receivers.
Shape = tuple[int, int]
TRIED_DTYPE = DType.FLOAT32  # every shape is tried in it
CALL_COLUMNS = ("operation", "group_size", "stride", "dtype", "payload_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCall:
    """A call of the library.

    Attributes:
        operation: Its name by `operation_name`.
        payload_bytes: Bytes on one rank, at the larger side.
    """

    operation: str
    shape: Shape
    dtype: DType
    payload_bytes: int

    def columns(self) -> dict[str, str | int]:
        """Return its CALL_COLUMNS, for a row of a table."""
        told = (self.operation, *self.shape, self.dtype.value, self.payload_bytes)
        return dict(zip(CALL_COLUMNS, told, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Whether a call is supported, and the evidence: a row of the table if it was tried."""

    call: LibraryCall
    supported: bool
    evidence: str


NOT_TRIED = "the selftest did not try it"


class Capabilities:
    """The rows of a capabilities table.

    A call is supported if it was tried with success, at any payload below the smallest failed one. An untried call
    is not supported. For a dtype untried with groups of a shape, both must have been tried apart: the shape in
    float32, the dtype with groups of another shape.
    """

    def __init__(self, rows: Iterable[Capability]) -> None:
        self._rows: dict[tuple[str, Shape, DType], list[Capability]] = {}
        for row in rows:
            self._rows.setdefault((row.call.operation, row.call.shape, row.call.dtype), []).append(row)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> "Capabilities":
        """Read the rows of the table: `Capabilities.from_rows(frame.iter_rows(named=True))`."""
        return cls(
            Capability(
                call=LibraryCall(
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
        """Rename shapes: groups of shape `groups[s]` become groups of s, permutes likewise; drop all others."""
        return Capabilities(
            replace(row, call=replace(row.call, shape=shape))
            for (operation, known, _), rows in self._rows.items()
            for shape, of in (permutes if operation == Kind.COLLECTIVE_PERMUTE else groups).items()
            if known == of
            for row in rows
        )

    @property
    def refused(self) -> tuple[Capability, ...]:
        return tuple(row for rows in self._rows.values() for row in rows if not row.supported)

    def first_refused(self, program: Program) -> Capability | None:
        """Return the first unsupported call of a Program; None: all are supported."""
        found = (self.supports(call_of(call, program.problem.case)) for call in program.calls)
        return next((one for one in found if not one.supported), None)

    def supports(self, call: LibraryCall) -> Capability:
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
            return Capability(call=call, supported=False, evidence=NOT_TRIED)
        refused = [one for rows in (shaped, typed) if not (one := _judged(rows, call)).supported]
        apart = Capability(call=call, supported=True, evidence="groups and dtype were tried apart")
        return refused[0] if refused else apart


def _judged(rows: Sequence[Capability], call: LibraryCall) -> Capability:
    limits = [row for row in rows if not row.supported and row.call.payload_bytes <= call.payload_bytes]
    if limits:
        worst = min(limits, key=lambda row: row.call.payload_bytes)
        evidence = f"failed at {worst.call.payload_bytes} bytes: {worst.evidence}"
        return Capability(call=call, supported=False, evidence=evidence)
    worked = next((row.evidence for row in rows if row.supported), None)
    return Capability(call=call, supported=worked is not None, evidence=worked or NOT_TRIED)


def call_of(call: Sequence[Node], case: Case) -> LibraryCall:
    """Return the call for some collectives of a Case, with its groups among all ranks of the deployment.

    Several collectives in one call have one payload: their sum.
    """
    return LibraryCall(
        operation=operation_name(call),
        shape=shape_of(call[0], case),
        dtype=call[0].dtype,
        payload_bytes=sum(map(payload_bytes, call)),
    )


def shape_of(node: Node, case: Case) -> Shape:
    """Return the shape of a collective among all ranks of the deployment."""
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return permute_shape(node.sources, case.groups, strided=case.strided)
    return node.groups.size, node.groups.stride * case.stride


class Pattern(StrEnum):
    """Pattern of a permute, as far as libraries tell them apart. It may also go the other way."""

    RING = "ring"  # every rank to the next, the last to the first
    LINE = "line"  # every rank to the next, except the last
    SWAP = "swap"  # every rank to the one half of all ranks away, and back
    HALF = "half"  # one direction of each such swap
    ANY = "any"  # anything else


def permute_shapes(ranks: int) -> dict[Pattern, Shape]:
    """Return the shapes of permutes of so many ranks. Two ranks swap in a ring."""
    shapes = {Pattern.RING: (ranks, 1), Pattern.LINE: (ranks - 1, 1), Pattern.ANY: (ranks, NO_ORDER)}
    if ranks % 2 == 0:
        shapes |= {Pattern.SWAP: (ranks, ranks // 2), Pattern.HALF: (ranks // 2, ranks // 2)}
    return shapes


@lru_cache(maxsize=4096)
def permute_shape(sources: tuple[int, ...], groups: int = 1, *, strided: bool = False) -> Shape:
    """Return the shape of a permute by so many groups of ranks at once.

    Args:
        sources: The sources of the node, in one group.
    """
    ranks, step = len(sources) * groups, groups if strided else 1
    far = {(r - source) * step % ranks for r, source in enumerate(sources) if source >= 0}
    shapes = permute_shapes(ranks)
    senders = groups * sum(source >= 0 for source in sources)
    alike = {(senders, min(d, ranks - d)) for d in far} if len(far) == 1 else set()
    return next((shape for shape in shapes.values() if shape in alike), shapes[Pattern.ANY])


def shape_text(shape: Shape) -> str:
    """Return `4`, `4, 8 ranks apart` or `4 in no order`."""
    size, stride = shape
    return f"{size}" + {1: "", NO_ORDER: " in no order"}.get(stride, f", {stride} ranks apart")


def operation_name(call: Sequence[Node]) -> str:
    """Return a call's name in the table: `all_reduce`; several collectives add `_coalesced`, a maximum `_max`."""
    reduction = getattr(call[0].attr, "reduction", Reduction.SUM)
    return call_name(call) + ("_max" if reduction is Reduction.MAX else "")
