"""What a deployment's library can do: the capabilities table as data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import NO_ORDER
from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import payload_bytes

Shape = tuple[int, int]  # of replica groups: their size, and the stride from a member to the next
TRIED_DTYPE = DType.FLOAT32  # in which every shape is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the library. operation: as `operation_name` spells it; shape: of its replica groups, all ranks for
    a permute; payload_bytes: on one rank, at the larger side."""

    operation: str
    shape: Shape
    dtype: DType
    payload_bytes: int


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

    def of_shapes(self, shapes: Mapping[Shape, Shape]) -> "Capabilities":
        """The same library with groups of shape `shapes[s]` called groups of s, and no others."""
        return Capabilities(
            replace(row, call=replace(row.call, shape=shape))
            for shape, of in shapes.items()
            for (_, known, _), rows in self._rows.items()
            for row in rows
            if known == of
        )

    @property
    def refused(self) -> tuple[Capability, ...]:
        """What was tried and failed."""
        return tuple(row for rows in self._rows.values() for row in rows if not row.supported)

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


def call_of(node: Node, case: Case) -> Call:
    """The call that a collective of a Case is: its replica groups are those of the deployment's ranks."""
    return Call(
        operation=operation_name(node),
        shape=shape_of(node, case),
        dtype=node.dtype,
        payload_bytes=payload_bytes(node),
    )


def shape_of(node: Node, case: Case) -> Shape:
    """Size and stride of a collective's replica groups among all ranks of the deployment; permutes have none."""
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return case.ranks * case.groups, 1
    return node.groups.size, node.groups.stride * case.stride


def shape_text(shape: Shape) -> str:
    """`4`, `4, 8 ranks apart`, `4 in no order`."""
    size, stride = shape
    return f"{size}" + {1: "", NO_ORDER: " in no order"}.get(stride, f", {stride} ranks apart")


def operation_name(node: Node) -> str:
    """How the capabilities table names a collective: its kind, with `_max` behind a reduction by maximum."""
    reduction = getattr(node.attr, "reduction", Reduction.SUM)
    return node.kind.value + ("_max" if reduction is Reduction.MAX else "")
