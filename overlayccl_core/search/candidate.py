"""What a search keeps: Programs with their lineage, and a record of every proposal."""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from overlayccl_core.costmodel.price import Price
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe


class Source(StrEnum):
    """Whose idea a Program was."""

    DEVELOPER = "developer"
    SEED = "seed"
    RULE = "rule"


class Stage(StrEnum):
    """Where a proposal was tried."""

    PROXY = "proxy"
    FULL = "full"


class SketchOutcome(StrEnum):
    """What became of a proposal."""

    PROGRAM = "program"
    DUPLICATE = "duplicate"
    DOES_NOT_APPLY = "does_not_apply"
    REJECTED = "rejected"
    ILLEGAL = "illegal"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A Program that solves the Problem if its lineage is right.

    parent: value_digest of the Program that it was made from. legal: fails where the deployment cannot run it.
    """

    program: Program
    recipe: Recipe
    source: Source
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
        """Cheapest first; among equals those of people, of few collectives, then as their digests say."""
        us = inf if self.price.us is None else self.price.us
        invented = self.source is Source.RULE
        return us, int(invented), len(self.program.collectives), self.program.digest

    def child_recipe(self, *steps: Step) -> Recipe:
        """The recipe of what steps make of it."""
        return replace(self.recipe, steps=(*self.recipe.steps, *steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """One proposal and what became of it. steps: none for a strategy of people; several are taken together."""

    parent: str | None
    source: Source
    steps: tuple[Step, ...]
    rationale: str
    outcome: SketchOutcome
    value_digest: str | None
    message: str
    stage: Stage
