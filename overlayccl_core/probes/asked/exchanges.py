"""Orders of exchanges: collectives one after another or in flight, calls of several values, point to point."""

from typing import ClassVar, Literal

from pydantic import Field

from overlayccl_core.configuration.fields import Fields
from overlayccl_core.probes.asked.order import (
    COUNT,
    MOST,
    QUARTERS,
    WORLD,
    Order,
    ProbeTarget,
    finished,
    sized,
)
from overlayccl_core.probes.probe import Probe, operand_size
from overlayccl_core.probes.structured import coalesced, in_flight, turned
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import DType, Kind

DEPTH = Field(
    default=1,
    ge=1,
    le=MOST,
    description="how many are outstanding at most; 1: each is waited for before the next",
)
PAYLOAD = Field(ge=4, description="bytes of each on a rank, at its larger side; rounded up to whole blocks")
GROUPS = Field(default=WORLD, description="which ranks exchange with each other")


class Collectives(Order):
    """Collectives of one kind and size."""

    tool = "time_collectives"
    what = "Collectives of one kind and size: one after another, or back to back with several in flight."

    kind: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"] = Field(
        description="of collective"
    )
    payload_bytes: int = PAYLOAD
    groups: str = GROUPS
    count: int = COUNT
    in_flight: int = DEPTH
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="of the elements")
    after_work: bool = Field(
        default=False, description="true: each is of a copy that is moved right before it"
    )

    def probes(self, place: ProbeTarget) -> list[Probe]:
        place.check_payload(self.payload_bytes)
        kind, dtype, groups = Kind(self.kind), DType(self.dtype), place.groups_named(self.groups)
        size = operand_size(kind, self.payload_bytes // dtype.bytes, groups.size)
        if self.after_work and size < QUARTERS:
            raise ValueError(
                f"payload_bytes: what is moved needs {QUARTERS} elements of a rank (got {size}): take a larger one"
            )
        probe, depth = place.new(), min(self.in_flight, self.count)
        in_flight(
            *(probe, kind, [size] * self.count, groups, depth),
            dtype=dtype,
            moved=turned(size) if self.after_work else None,
        )
        parts = [
            self.kind,
            self.groups,
            dtype.value if dtype is not DType.FLOAT32 else "",
            "after-work" if self.after_work else "",
        ]
        return [finished(probe, *parts, sized(self.count, self.payload_bytes), f"{depth}-deep")]


class Coalesced(Order):
    """Calls of several values each."""

    tool = "time_coalesced_calls"
    what = "all_reduce of several values by one call of the library, over all ranks; all calls in flight."

    payload_bytes: int = PAYLOAD
    values: int = Field(ge=2, le=MOST, description="of each call")
    count: int = Field(default=1, ge=1, le=8, description="how many calls")

    def probes(self, place: ProbeTarget) -> list[Probe]:
        place.check_payload(self.payload_bytes * self.values)
        kind, probe = Kind.ALL_REDUCE, place.new()
        size = operand_size(kind, self.payload_bytes // DType.FLOAT32.bytes, probe.ranks)
        coalesced(probe, kind, size, self.values, self.count)
        calls = f"{self.count}x{sized(self.values, self.payload_bytes)}"
        return [finished(probe, kind.value, "calls", calls)]


class PointToPoint(Order):
    """Permutes: every rank sends to one and hears from one."""

    tool = "time_point_to_point"
    what = (
        "collective_permute: each rank sends a value to the rank `shift` further on, the last to the first."
    )

    payload_bytes: int = PAYLOAD
    shift: int = Field(
        default=1, ge=1, description="from a rank to the one that it sends to; below the ranks"
    )
    count: int = COUNT
    in_flight: int = DEPTH

    def probes(self, place: ProbeTarget) -> list[Probe]:
        place.check_payload(self.payload_bytes)
        ranks = place.deployment.ranks
        if self.shift >= ranks:
            raise ValueError(
                f"shift must be below {ranks}, the ranks (got {self.shift}): take it modulo {ranks}"
            )
        kind, probe, depth = Kind.COLLECTIVE_PERMUTE, place.new(), min(self.in_flight, self.count)
        size = operand_size(kind, self.payload_bytes // DType.FLOAT32.bytes, ranks)
        in_flight(probe, kind, [size] * self.count, world(ranks), depth, shift=self.shift)
        return [
            finished(
                probe, kind.value, f"by-{self.shift}", sized(self.count, self.payload_bytes), f"{depth}-deep"
            )
        ]


class Supports(Fields):
    """Whether the library takes a call. Nothing is timed."""

    tool: ClassVar[str] = "supports"
    what: ClassVar[str] = "Whether the library here takes a call, as its selftest found. Costs nothing."

    kind: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"] = Field(
        description="of collective; a permute is the one of time_point_to_point, of float32 and all ranks"
    )
    payload_bytes: int = PAYLOAD
    groups: str = GROUPS
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="of the elements")
    shift: int = Field(default=1, ge=1, description="of a permute")

    def probe(self, place: ProbeTarget) -> Probe:
        """Build one with that call. ValueError: the field, the rule and the mend."""
        if self.kind == "collective_permute":
            [probe] = PointToPoint(payload_bytes=self.payload_bytes, shift=self.shift).probes(place)
        else:
            fields = self.model_dump(exclude={"shift"})
            [probe] = Collectives(**fields).probes(place)
        return probe
