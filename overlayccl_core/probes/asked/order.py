"""Orders: a tool's fields, for the kind and the size of a measurement alone.

No field takes a time. A probe's name follows from the fields, so equal names are equal probes.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.fields import Fields, hint
from overlayccl_core.configuration.sizes import bytes_text, in_bytes
from overlayccl_core.probes.probe import Probe, ProbeBuilder
from overlayccl_core.probes.structured import subgroups
from overlayccl_core.program.groups import Groups, world

MOST = 32  # of anything in one probe
QUARTERS = 4  # fewest pieces for a move
WORLD = "world"
COUNT = Field(default=1, ge=1, le=MOST, description="how many in the Program")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """The deployment to build probes for; `mixed_seed` is never the seed of the held-out Programs."""

    deployment: Deployment
    mixed_seed: int

    def new(self) -> ProbeBuilder:
        here = self.deployment
        return ProbeBuilder(here.ranks, here.ranks_per_node, uniform=here.uniform)

    @property
    def groups(self) -> Mapping[str, Groups]:
        return {WORLD: world(self.deployment.ranks), **subgroups(self.deployment)}

    def groups_named(self, name: str) -> Groups:
        """Return the groups of a name. ValueError names the known ones."""
        if name not in self.groups:
            raise ValueError(f"groups: there are none named {name!r}: {hint(name, self.groups)}")
        return self.groups[name]

    def check_payload(self, payload_bytes: int) -> None:
        """Raise ValueError for a payload above the deployment's largest."""
        if payload_bytes > (most := self.deployment.largest_payload_bytes):
            raise ValueError(
                f"payload_bytes must be at most {most} here (got {payload_bytes}): take a smaller one"
            )


class Order(Fields):
    """A call of a tool: its fields. tool: its name; what: its purpose, in a sentence or two."""

    tool: ClassVar[str]
    what: ClassVar[str]

    def probes(self, place: ProbeTarget) -> list[Probe]:
        """Build legal probes. ValueError: the field, the rule and the mend."""
        raise NotImplementedError


def finished(probe: ProbeBuilder, *parts: str) -> Probe:
    """Finish a probe; its name joins the parts, without empty ones."""
    return probe.finish("-".join(filter(None, parts)))


def sized(count: int, payload_bytes: int) -> str:
    """Return `4x64KiB`; of bytes without a short name all digits."""
    with suppress(ValueError):  # of a text with no whole number of bytes
        if in_bytes(short := bytes_text(payload_bytes)) == payload_bytes:
            return f"{count}x{short}"
    return f"{count}x{payload_bytes}B"
