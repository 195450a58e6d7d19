"""The physical floor: times that cannot be, whatever a Program does, judged by what the probes measured.

A module that skips work is fast. A time is invalid below the bytes that must be sent over the best bandwidth
that any probe reached, and below a quarter of the fastest probe of the Program's dearest single collective.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import group_size, payload_bytes, wire_bytes
from overlayccl_core.program.program import Program

OF_FASTEST_PROBE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedCollective:
    """The fastest time in which one collective was measured here, waits and all."""

    kind: Kind
    group_size: int
    payload_bytes: int
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What a deployment's probes reached. best_bytes_per_us: on the wire, per rank, of any probe."""

    best_bytes_per_us: float
    collectives: tuple[ProbedCollective, ...]

    def __post_init__(self) -> None:
        if not self.best_bytes_per_us > 0:
            raise ValueError("a floor needs at least one probe with a collective: run the probes first")

    def us(self, program: Program) -> float:
        """No right execution of the Program takes less; 0 for one without collectives."""
        on_the_wire = sum(wire_bytes(x) for x in program.collectives) / self.best_bytes_per_us
        dearest = max((self._fastest(x) for x in program.collectives), default=0.0)
        return max(on_the_wire, OF_FASTEST_PROBE * dearest)

    def _fastest(self, node: Node) -> float:
        """The fastest probe of a kind and group size at the largest payload that is not above the node's.

        0 where none was that small: then the probes say nothing of it.
        """
        payload = payload_bytes(node)
        alike = [
            c
            for c in self.collectives
            if c.kind is node.kind and c.group_size == group_size(node) and c.payload_bytes <= payload
        ]
        largest = max((c.payload_bytes for c in alike), default=0)
        return min((c.us for c in alike if c.payload_bytes == largest), default=0.0)


def floor_from_probes(probes: Iterable[tuple[Program, float]]) -> Floor:
    """The floor from (probe, measured us). Probes whose collectives are all alike give times of one."""
    best = 0.0
    fastest: dict[tuple[Kind, int, int], float] = {}
    for program, us in probes:
        found = program.collectives
        best = max(best, sum(wire_bytes(x) for x in found) / us)
        alike = {(x.kind, group_size(x), payload_bytes(x)) for x in found}
        if len(alike) == 1:
            key = alike.pop()
            fastest[key] = min(fastest.get(key, float("inf")), us / len(found))
    collectives = tuple(
        ProbedCollective(kind=kind, group_size=size, payload_bytes=payload, us=us)
        for (kind, size, payload), us in sorted(fastest.items())
    )
    return Floor(best_bytes_per_us=best, collectives=collectives)
