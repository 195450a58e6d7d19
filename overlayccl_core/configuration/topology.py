"""A topology: published figures of one kind of node and of the network between nodes, each with its source.

Nothing in it was measured on this deployment: the figures are expectations, and references to compare with.
"""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from overlayccl_core.configuration.fields import Count, Fields, read
from overlayccl_core.configuration.sizes import Bytes
from overlayccl_core.program.kinds import Kind

FOLDER = Path("config/topologies")
Positive = Annotated[float, Field(gt=0)]


class Sourced(Fields):
    """Published figures and their source."""

    source: str = Field(min_length=1, description="where the figures are published")


class TierFigures(Sourced):
    """Bandwidth and latency of a tier of ranks."""

    name: str = Field(min_length=1, description="as a deployment names the tier: node, network")
    gb_per_s: Positive = Field(description="10^9 bytes a second of a link, or of what a node's ranks share")
    latency_us: Positive = Field(description="us of one message")


class Memory(Sourced):
    """Memory of the devices."""

    per_core_bytes: Bytes = Field(validation_alias="per_core", description="of a core")


class Limit(Sourced):
    """Calls of one operation refused by the library, by its documentation."""

    operation: Kind = Field(description="a collective")
    most_ranks: Count | None = Field(default=None, description="of a group")
    most_nodes: Count | None = Field(default=None, description="that the ranks of a group may be on")
    most_payload_bytes: Bytes | None = Field(
        default=None, validation_alias="most_payload", description="bytes at the larger side of a call"
    )

    @model_validator(mode="after")
    def _of_something(self) -> Self:
        if (self.most_ranks, self.most_nodes, self.most_payload_bytes) == (None, None, None):
            raise ValueError("a limit must say of what: give most_ranks, most_nodes or most_payload")
        return self

    def refuses(self, operation: Kind, *, ranks: int, nodes: int, payload_bytes: int) -> bool:
        """Return whether it refuses a call: groups of so many ranks on so many nodes, so many bytes on a rank."""
        pairs = ((ranks, self.most_ranks), (nodes, self.most_nodes), (payload_bytes, self.most_payload_bytes))
        return operation is self.operation and any(most is not None and asked > most for asked, most in pairs)


class Mechanism(Sourced):
    """A property of the stack, present or absent."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="lower-case letters, digits and _")
    holds: bool = Field(description="true or false")


def _rising(pairs: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if any(second[0] <= first[0] or second[1] < first[1] for first, second in pairwise(pairs)):
        raise ValueError(f"both columns must rise (got {[list(pair) for pair in pairs]})")
    return pairs


Curve = Annotated[tuple[tuple[Count, Positive], ...], Field(min_length=1), AfterValidator(_rising)]
SizeCurve = Annotated[tuple[tuple[Bytes, Positive], ...], Field(min_length=1), AfterValidator(_rising)]


class ClusterTimes(Sourced):
    """Times of a cluster of these nodes."""

    back_to_back_us: Curve = Field(description="pairs: so many small all_reduce in one graph, us of them all")
    graph_boundary_us: Positive = Field(description="from one graph to the next")
    compile_s: SizeCurve = Field(description="pairs: largest payload of a graph, seconds")
    fused_operation_us: Positive = Field(
        description="the least that a local operation takes in another's loop"
    )
    operation_us: Positive = Field(description="the least that one takes that makes its result in memory")
    sequential_gb_per_s: Positive = Field(description="10^9 bytes a second of a copy")
    strided_gb_per_s: Positive = Field(description="the same of a strided one")


class Topology(Fields):
    """A node and the network."""

    name: str
    devices: Count = Field(description="of a node")
    cores_per_device: Count = Field(description="each may be a rank")
    tiers: tuple[TierFigures, ...] = Field(min_length=1, description="from the nearest to the farthest")
    memory: Memory = Field(description="of the devices")
    limits: tuple[Limit, ...] = Field(description="calls that the library is documented to refuse")
    mechanisms: tuple[Mechanism, ...] = Field(description="what the stack does, or does not do")
    calibration: ClusterTimes = Field(description="times of a cluster of these nodes")

    @property
    def ranks_per_node(self) -> int:
        """Cores of a node."""
        return self.devices * self.cores_per_device

    def tier(self, name: str) -> TierFigures:
        """Return the tier of a name. A ValueError lists the known ones."""
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise ValueError(f"no tier {name!r}: there are {', '.join(tier.name for tier in self.tiers)}")


def load(name: str, folder: Path = FOLDER) -> Topology:
    """Return the topology of a name. ValueError: file, field and mend."""
    return read("topology", folder / f"{name}.yaml", Topology, name=name)


def of_node(node: str, folder: Path = FOLDER) -> Topology | None:
    """Return the topology of a kind of node; None if none is published. ValueError: file, field and mend."""
    return load(node, folder) if node and (folder / f"{node}.yaml").is_file() else None
