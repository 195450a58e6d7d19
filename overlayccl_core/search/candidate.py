"""What a search keeps: Programs with their lineage and their price."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from overlayccl_core.costmodel.price import Price
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe


class Origin(StrEnum):
    """Whose idea a Program was."""

    DEVELOPER = "developer"
    KNOWN = "known"
    RULE = "rule"
    SKETCH = "sketch"


INVENTED = (Origin.RULE, Origin.SKETCH)


class Stage(StrEnum):
    """Where a proposal was tried."""

    PROXY = "proxy"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A Program that solves the Problem if its lineage is right.

    parent: value_digest of the Program that it was made from. legal: fails where the deployment cannot run it.
    """

    program: Program
    recipe: Recipe
    origin: Origin
    parent: str | None
    legal: Verdict
    price: Price
    family: str
    lossy: bool

    @property
    def feasible(self) -> bool:
        """Whether the deployment can run it."""
        return self.legal.passed

    @property
    def order(self) -> tuple[float, int, int, str]:
        """Cheapest first; among equals those of people, of few calls, then as their digests say."""
        us = inf if self.price.us is None else self.price.us
        invented = self.origin in INVENTED
        return us, int(invented), len(self.program.calls), self.program.digest

    def child_recipe(self, *steps: Step) -> Recipe:
        """The recipe of what steps make of it."""
        return replace(self.recipe, steps=(*self.recipe.steps, *steps))
