"""What a deployment's library can do: the capabilities table as data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from overlayccl_core.program.kinds import DType, Reduction
from overlayccl_core.program.nodes import Node

Key = tuple[str, int, DType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One row: an operation that was tried, with so many members a group, at a payload."""

    operation: str
    group_size: int
    dtype: DType
    payload_bytes: int
    supported: bool
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Whether something can be called, and what says so."""

    supported: bool
    evidence: str


class Capabilities:
    """The rows of a capabilities table, by operation, group size and dtype.

    Supported is what was tried with success, at any payload below the smallest that failed. What was never
    tried is not supported.
    """

    def __init__(self, rows: Iterable[Capability]) -> None:
        self._rows: dict[Key, list[Capability]] = {}
        for row in rows:
            self._rows.setdefault((row.operation, row.group_size, row.dtype), []).append(row)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> "Capabilities":
        """From the rows of the table: `Capabilities.from_rows(frame.iter_rows(named=True))`."""
        return cls(
            Capability(
                operation=row["operation"],
                group_size=row["group_size"],
                dtype=DType(row["dtype"]),
                payload_bytes=row["payload_bytes"],
                supported=row["supported"],
                evidence=row["evidence"],
            )
            for row in rows
        )

    def of_sizes(self, sizes: Mapping[int, int]) -> "Capabilities":
        """The same library with groups of `sizes[g]` members called groups of g, and no others."""
        return Capabilities(
            replace(row, group_size=size)
            for size, of in sizes.items()
            for (_, group_size, _), rows in self._rows.items()
            for row in rows
            if group_size == of
        )

    def supports(self, operation: str, group_size: int, dtype: DType, payload_bytes: int) -> Support:
        """Whether the library takes this call. operation: as `operation_name` spells it."""
        rows = self._rows.get((operation, group_size, dtype), [])
        limits = [r for r in rows if not r.supported and r.payload_bytes <= payload_bytes]
        if limits:
            worst = min(limits, key=lambda r: r.payload_bytes)
            return Support(
                supported=False,
                evidence=f"failed at {worst.payload_bytes} bytes: {worst.evidence}",
            )
        worked = [r for r in rows if r.supported]
        if not worked:
            return Support(supported=False, evidence="the selftest did not try it")
        return Support(supported=True, evidence=worked[0].evidence)


def operation_name(node: Node) -> str:
    """How the capabilities table names a collective: its kind, with `_max` behind a reduction by maximum."""
    reduction = getattr(node.attr, "reduction", Reduction.SUM)
    return node.kind.value + ("_max" if reduction is Reduction.MAX else "")
