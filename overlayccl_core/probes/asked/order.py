"""What an order is: the fields of a tool, which say what is measured and how large it is, nothing else.

No field takes a time. A probe's name follows from the fields, so equal names are equal probes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.fields import Fields, hint
from overlayccl_core.configuration.sizes import bytes_text, in_bytes
from overlayccl_core.probes.probe import Probe, ProbeBuilder, Role
from overlayccl_core.probes.structured import subgroups
from overlayccl_core.program.groups import Groups, world

MOST = 32  # of anything in one probe
QUARTERS = 4  # below so many pieces nothing is moved
WORLD = "world"
COUNT = Field(default=1, ge=1, le=MOST, description="how many in the Program")


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


def finished(probe: ProbeBuilder, *parts: str) -> Probe:
    """A probe by the parts of its name that are not empty."""
    return probe.finish("-".join(filter(None, parts)), Role.STRUCTURED)


def sized(count: int, payload_bytes: int) -> str:
    """`4x64KiB`; of bytes that have no short name all digits."""
    short = bytes_text(payload_bytes)
    try:
        exact = in_bytes(short) == payload_bytes
    except ValueError:  # no whole number of bytes
        exact = False
    return f"{count}x{short if exact else f'{payload_bytes}B'}"
