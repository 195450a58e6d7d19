"""Orders: what a language model may have timed. A tool has the fields of an order; an order makes probes.

Probes are built as those of the sweep are, by the same functions. An order says what is measured and how large it
is, nothing else: no field takes a time, and a name follows from the fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from overlayccl_core.asking.conversation import Tool
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.fields import Fields, hint, schema
from overlayccl_core.configuration.sizes import bytes_text, in_bytes
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Probe, ProbeBuilder, Role, operand_size
from overlayccl_core.probes.structured import (
    coalesced,
    in_flight,
    repeated,
    shuffled,
    subgroups,
    transposed,
    turned,
)
from overlayccl_core.program import maps, nodes
from overlayccl_core.program.groups import Groups, world
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.nodes import Node

MOST = 32  # of anything in one probe
MOST_MIXED = 16  # in one order
MOST_ROWS = 2**18  # of a copy that is not one piece: what the sweep has at most
QUARTERS = 4  # below so many pieces nothing is moved

WORLD = "world"
_COUNT = Field(default=1, ge=1, le=MOST, description="how many in the Program")
_DEPTH = Field(
    default=1,
    ge=1,
    le=MOST,
    description="how many are outstanding at most; 1: each is waited for before the next",
)
_PAYLOAD = Field(ge=4, description="bytes of each on a rank, at its larger side; rounded up to whole blocks")
_GROUPS = Field(default=WORLD, description="which ranks exchange with each other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where probes are built. mixed_seed: of the random Programs that may be fitted, never that of the held-out."""

    deployment: Deployment
    mixed_seed: int

    def new(self) -> ProbeBuilder:
        """An empty probe."""
        here = self.deployment
        return ProbeBuilder(here.ranks, here.ranks_per_node, uniform=here.uniform)

    @property
    def groups(self) -> Mapping[str, Groups]:
        """Name to groups of ranks."""
        return {WORLD: world(self.deployment.ranks), **subgroups(self.deployment)}

    def groups_named(self, name: str) -> Groups:
        """ValueError naming those there are."""
        if name not in self.groups:
            raise ValueError(f"groups: there are none named {name!r}: {hint(name, self.groups)}")
        return self.groups[name]

    def check_payload(self, payload_bytes: int) -> None:
        """ValueError for one that is larger than any that this deployment tries."""
        if payload_bytes > (most := self.deployment.largest_payload_bytes):
            raise ValueError(
                f"payload_bytes must be at most {most} here (got {payload_bytes}): take a smaller one"
            )


class Order(Fields):
    """What a call of a tool has timed. tool: its name; what: what it is for, in a sentence or two."""

    tool: ClassVar[str]
    what: ClassVar[str]

    def probes(self, place: Place) -> list[Probe]:
        """Legal probes. ValueError: the field, the rule and the mend."""
        raise NotImplementedError


class Collectives(Order):
    """Collectives of one kind and size."""

    tool = "time_collectives"
    what = "Collectives of one kind and size: one after another, or back to back with several in flight."

    kind: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"] = Field(
        description="of collective"
    )
    payload_bytes: int = _PAYLOAD
    groups: str = _GROUPS
    count: int = _COUNT
    in_flight: int = _DEPTH
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="of the elements")
    after_work: bool = Field(
        default=False, description="true: each is of a copy that is moved right before it"
    )

    def probes(self, place: Place) -> list[Probe]:
        """One."""
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
        parts = [self.kind, self.groups, *_dtype_part(dtype), *(["after-work"] if self.after_work else [])]
        return [_finished(probe, *parts, _each(self.count, self.payload_bytes), f"{depth}-deep")]


class Coalesced(Order):
    """Calls of several values each."""

    tool = "time_coalesced_calls"
    what = "all_reduce of several values by one call of the library, over all ranks; all calls in flight."

    payload_bytes: int = _PAYLOAD
    values: int = Field(ge=2, le=MOST, description="of each call")
    count: int = Field(default=1, ge=1, le=8, description="how many calls")

    def probes(self, place: Place) -> list[Probe]:
        """One."""
        place.check_payload(self.payload_bytes * self.values)
        kind, probe = Kind.ALL_REDUCE, place.new()
        size = operand_size(kind, self.payload_bytes // DType.FLOAT32.bytes, probe.ranks)
        coalesced(probe, kind, size, self.values, self.count)
        each = f"{self.count}x{_each(self.values, self.payload_bytes)}"
        return [_finished(probe, kind.value, "calls", each)]


class PointToPoint(Order):
    """Permutes: every rank sends to one and hears from one."""

    tool = "time_point_to_point"
    what = (
        "collective_permute: each rank sends a value to the rank `shift` further on, the last to the first."
    )

    payload_bytes: int = _PAYLOAD
    shift: int = Field(
        default=1, ge=1, description="from a rank to the one that it sends to; below the ranks"
    )
    count: int = _COUNT
    in_flight: int = _DEPTH

    def probes(self, place: Place) -> list[Probe]:
        """One."""
        place.check_payload(self.payload_bytes)
        ranks = place.deployment.ranks
        if self.shift >= ranks:
            raise ValueError(
                f"shift must be below {ranks}, the ranks (got {self.shift}): take it modulo {ranks}"
            )
        kind, probe, depth = Kind.COLLECTIVE_PERMUTE, place.new(), min(self.in_flight, self.count)
        size = operand_size(kind, self.payload_bytes // DType.FLOAT32.bytes, ranks)
        in_flight(probe, kind, [size] * self.count, world(ranks), depth, shift=self.shift)
        each = _each(self.count, self.payload_bytes)
        return [_finished(probe, kind.value, f"by-{self.shift}", each, f"{depth}-deep")]


class Copies(Order):
    """Copies of one layout and size."""

    tool = "time_copies"
    what = (
        "Copies on each rank, no exchange. transpose: a square of rows of `width` elements, transposed; shuffle: "
        "such rows in an order without a pattern; repeat: the value `times` over; join: two values end to end."
    )

    layout: Literal["transpose", "shuffle", "repeat", "join"] = Field(description="what the copy does")
    payload_bytes: int = Field(
        ge=4, description="bytes of the value that is copied (of each, where two are joined)"
    )
    width: int = Field(default=1, ge=1, le=2**16, description="of transpose and shuffle: elements of a row")
    times: int = Field(default=2, ge=2, le=MOST, description="of repeat: how often")
    count: int = _COUNT

    def probes(self, place: Place) -> list[Probe]:
        """One."""
        grown = {"repeat": self.times, "join": 2}.get(self.layout, 1)
        place.check_payload(self.payload_bytes * grown)
        size, probe = self.payload_bytes // DType.FLOAT32.bytes, place.new()
        if self.layout in ("transpose", "shuffle"):
            rows = size // self.width
            if not QUARTERS <= rows <= MOST_ROWS:
                raise ValueError(
                    f"width: {self.payload_bytes} bytes must be {QUARTERS} to {MOST_ROWS} rows of it (got {rows}): "
                    "take another width or payload_bytes"
                )
        layout = {
            "transpose": transposed(self.width),
            "shuffle": shuffled(self.width),
            "repeat": repeated(self.times),
            "join": lambda size: maps.identity(2 * size),
        }[self.layout]
        operands = [
            [probe.read(size) for _ in range(2 if self.layout == "join" else 1)] for _ in range(self.count)
        ]
        for some in operands:
            probe.write(nodes.make_view(some, layout(size)))
        of = {"repeat": f"{self.times}-times", "join": "two"}.get(self.layout, f"rows-of-{self.width}")
        return [_finished(probe, self.layout, of, _each(self.count, self.payload_bytes))]


class Arithmetic(Order):
    """Sums, scales and casts."""

    tool = "time_arithmetic"
    what = (
        "Arithmetic on each rank, no exchange. sum: the `parts` equal parts of a value are added up; scale: a "
        "value times an integer; cast: from float32 to bfloat16."
    )

    operation: Literal["sum", "scale", "cast"] = Field(description="what is computed")
    payload_bytes: int = Field(ge=4, description="bytes of the value that it is computed of")
    parts: int = Field(default=2, ge=2, le=MOST, description="of sum: how many")
    count: int = _COUNT

    def probes(self, place: Place) -> list[Probe]:
        """One."""
        place.check_payload(self.payload_bytes)
        size, probe = self.payload_bytes // DType.FLOAT32.bytes, place.new()
        if self.operation == "sum":
            size = max(1, size // self.parts) * self.parts
        for x in [probe.read(size) for _ in range(self.count)]:
            probe.write(self._of(x))
        of = f"of-{self.parts}" if self.operation == "sum" else ""
        return [_finished(probe, self.operation, of, _each(self.count, self.payload_bytes))]

    def _of(self, x: Node) -> Node:
        if self.operation == "cast":
            return nodes.make_cast(x, DType.BFLOAT16)
        return nodes.make_sum(x, self.parts) if self.operation == "sum" else nodes.make_scale(x, 3)


class Graphs(Order):
    """Graphs, one after another, with boundaries between them."""

    tool = "time_graphs"
    what = (
        "Graphs one after another, a boundary between each two: what starting, ending, compiling and loading them "
        "takes. The answer also has the first call, and the time in a compiler where the library has one."
    )

    graphs: int = Field(ge=1, le=MOST, description="how many")
    inside: Literal["nothing", "scale", "all_reduce"] = Field(default="nothing", description="what each does")
    payload_bytes: int = Field(default=1024, ge=4, description="bytes that each does it with")
    alike: bool = Field(default=True, description="false: each has another size, so no two are one graph")

    def probes(self, place: Place) -> list[Probe]:
        """One."""
        place.check_payload(self.payload_bytes)
        probe = place.new()
        size = self.payload_bytes // DType.FLOAT32.bytes
        step = 0 if self.alike else probe.ranks
        inputs = [probe.read(size)] if self.inside == "nothing" else []
        inputs = inputs or [probe.read(size + number * step) for number in range(self.graphs)]
        for number in range(self.graphs):
            if number:
                probe.boundary()
            if self.inside == "scale":
                probe.write(nodes.make_scale(inputs[number], 3))
            elif self.inside == "all_reduce":
                probe.write(probe.issue(Kind.ALL_REDUCE, inputs[number]))
        if self.inside == "nothing":
            probe.write(inputs[0])
        of = "" if self.inside == "nothing" else "alike" if self.alike else "unlike"
        return [_finished(probe, "graphs", self.inside, of, _each(self.graphs, self.payload_bytes))]


class Mixed(Order):
    """Random Programs."""

    tool = "time_mixed"
    what = (
        "Random Programs of 1 to 8 collectives of any kind and size, some in flight together, with local work "
        "between them. Each is a function of its number alone."
    )

    count: int = Field(ge=1, le=MOST_MIXED, description="how many Programs")
    first: int = Field(default=0, ge=0, le=1000, description="number of the first")

    def probes(self, place: Place) -> list[Probe]:
        """As many as it says."""
        drawn = mixed_probes(
            place.deployment, seed=place.mixed_seed, count=self.first + self.count, role=Role.MIXED
        )
        return drawn[self.first :]


class Supports(Fields):
    """Whether the library takes a call. Nothing is timed."""

    tool: ClassVar[str] = "supports"
    what: ClassVar[str] = "Whether the library here takes a call, as its selftest found. Costs nothing."

    kind: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"] = Field(
        description="of collective; a permute is the one of time_point_to_point, of float32 and all ranks"
    )
    payload_bytes: int = _PAYLOAD
    groups: str = _GROUPS
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="of the elements")
    shift: int = Field(default=1, ge=1, description="of a permute")

    def probe(self, place: Place) -> Probe:
        """One with that call. ValueError: the field, the rule and the mend."""
        if self.kind == Kind.COLLECTIVE_PERMUTE:
            [probe] = PointToPoint(payload_bytes=self.payload_bytes, shift=self.shift).probes(place)
        else:
            fields = self.model_dump(exclude={"shift"})
            [probe] = Collectives(**fields).probes(place)
        return probe


ORDERS: tuple[type[Order], ...] = (Collectives, Coalesced, PointToPoint, Copies, Arithmetic, Graphs, Mixed)


def order_of(name: str, given: Mapping[str, Any]) -> Order | None:
    """What a call of a tool orders; None for another tool. ValueError: field, rule, value and mend."""
    kind = next((order for order in ORDERS if order.tool == name), None)
    return None if kind is None else kind.from_data(given)


def tools(place: Place) -> list[Tool]:
    """A tool for each order, with the bounds of this deployment."""
    return [Tool(name=order.tool, description=order.what, schema=bounded(order, place)) for order in ORDERS]


def bounded(fields: type[Fields], place: Place) -> dict[str, Any]:
    """The JSON schema of some fields, with the groups and the largest payload of the deployment."""
    whole = schema(fields, given=())
    bounds = {
        "groups": {"enum": list(place.groups)},
        "payload_bytes": {"maximum": place.deployment.largest_payload_bytes},
        "shift": {"maximum": place.deployment.ranks - 1},
    }
    for name, field in whole["properties"].items():
        field |= bounds.get(name, {})
    return {key: whole[key] for key in ("type", "properties", "required", "additionalProperties")}


def _finished(probe: ProbeBuilder, *parts: str) -> Probe:
    return probe.finish("-".join(filter(None, parts)), Role.STRUCTURED)


def _dtype_part(dtype: DType) -> list[str]:
    return [] if dtype is DType.FLOAT32 else [dtype.value]


def _each(count: int, payload_bytes: int) -> str:
    """`4x64KiB`; of bytes that have no short name all digits: equal names are equal probes."""
    short = bytes_text(payload_bytes)
    try:
        exact = in_bytes(short) == payload_bytes
    except ValueError:  # no whole number of bytes
        exact = False
    return f"{count}x{short if exact else f'{payload_bytes}B'}"
