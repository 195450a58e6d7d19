"""Proposals: what a search may try, and the record of each that it tried."""

from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe, source_base
from overlayccl_core.search.candidate import Candidate, Origin, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Rule steps at a candidate, taken together. rationale: empty says what the last step's rule does."""

    at: Candidate
    steps: tuple[Step, ...]
    rationale: str = ""

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError(f"a rewrite of {self.at.recipe.dumps()} needs at least one step (got none)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A strategy that somebody wrote for the Problem: a function of a source in the restricted language."""

    function: str
    source: str
    rationale: str

    @property
    def recipe(self) -> Recipe:
        """The recipe that begins at it."""
        return Recipe(base=source_base(self.source, self.function))


Proposal = Rewrite | Sketch


class ProposalOutcome(StrEnum):
    """What became of a proposal."""

    PROGRAM = "program"
    DUPLICATE = "duplicate"
    DOES_NOT_APPLY = "does_not_apply"
    REJECTED = "rejected"
    ILLEGAL = "illegal"
    INFEASIBLE = "infeasible"
    NOT_PROVEN = "not_proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One proposal and what became of it. steps, sketch: neither for a strategy of people.

    parent, value_digest: of the Program that it began with and of the one that it came to, None where there is
    none. message: why it is no Program that may be chosen, for people and for who proposed it.
    """

    parent: str | None
    origin: Origin
    steps: tuple[Step, ...]
    sketch: Sketch | None
    rationale: str
    outcome: ProposalOutcome
    value_digest: str | None
    message: str
    stage: Stage
