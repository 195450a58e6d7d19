"""The candidates of a search: Programs with their lineage and their price."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from overlayccl_core.costmodel.price import Price
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe


class Origin(StrEnum):
    """The source of a Program."""

    DEVELOPER = "developer"
    KNOWN = "known"
    RULE = "rule"
    SKETCH = "sketch"


INVENTED = (Origin.RULE, Origin.SKETCH)


class Stage(StrEnum):
    """The Case of an attempt: the proxy or the full one."""

    PROXY = "proxy"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A Program for the Problem, right if its lineage is."""

    program: Program
    recipe: Recipe
    origin: Origin
    parent: str | None  # value_digest of the Program it was made from
    legal: Verdict  # fails if the deployment cannot run it
    price: Price
    family: str
    lossy: bool

    @property
    def feasible(self) -> bool:
        """Whether the deployment can run it."""
        return self.legal.passed

    @property
    def us(self) -> float:
        """The price in us; infinite if there is none."""
        return inf if self.price.us is None else self.price.us

    @property
    def order(self) -> tuple[float, bool, int, str]:
        """The sort key: cheapest first; among equals people's, then few calls, then by digest."""
        return self.us, self.origin in INVENTED, len(self.program.calls), self.program.digest
