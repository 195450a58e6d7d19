"""Prompts for a model choosing probes, filled in from the deployment and the budget."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from overlayccl_core.costmodel.features import Feature, Increment, Term, features
from overlayccl_core.deployments.capabilities import Capabilities, shape_text
from overlayccl_core.probes.asked.order import ProbeTarget
from overlayccl_core.probes.probe import Probe

SYSTEM = "prompts/system.md"
BEGIN = "prompts/begin.md"
TERMS = list(Term)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBriefing:
    """Facts for the prompts.

    Attributes:
        wanted: Columns of the cost model to tell apart.
        rounds: Rounds of each probe.
    """

    place: ProbeTarget
    capabilities: Capabilities
    wanted: Sequence[Feature]
    rounds: int

    @property
    def system(self) -> str:
        """The start of the conversation: the cost model and the deployment."""
        return self._filled(SYSTEM)

    def begin(self, left: str) -> str:
        """Return the task; `left` tells the rest of the budget in a sentence."""
        return self._filled(BEGIN, left=left)

    def _filled(self, file: str, **more: str) -> str:
        template = _environment().get_template(file)
        return (
            template.render(brief=self, here=self.place.deployment, rounds=self.rounds, **more).strip() + "\n"
        )

    @property
    def columns(self) -> list[str]:
        """Lines like `wait.count: us each [collectives]`."""
        return [
            f"{c.name}: {c.unit} [{c.term.value}{'' if c.increment is Increment.NONE else ', optional'}]"
            for c in self.wanted
        ]

    @property
    def groups(self) -> list[str]:
        """Lines like `halves: 2 of 2 ranks`."""
        return [f"{name}: {len(g.members)} of {g.size} ranks" for name, g in self.place.groups.items()]

    @property
    def refused(self) -> list[str]:
        return [
            f"{row.call.operation} in groups of {shape_text(row.call.shape)}, {row.call.dtype.value}, "
            f"from {row.call.payload_bytes} bytes on"
            for row in self.capabilities.refused
        ]


def columns_of(probes: Iterable[Probe]) -> list[Feature]:
    """Return the columns of some Programs, by term and name."""
    found = {column for probe in probes for column in features(probe.program)}
    return sorted(found, key=lambda c: (TERMS.index(c.term), c.name))


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # text for a model, no HTML
    )
