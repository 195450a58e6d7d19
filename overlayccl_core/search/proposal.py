"""Proposals: the inputs of a search, and the record of each attempt."""

import reprlib
from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.program.problem import Direction
from overlayccl_core.program.source_check import MAX_SOURCE_BYTES
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, source_base
from overlayccl_core.search.candidate import Candidate, Origin, Stage

PARTS = ("rule", "class", "knob")  # of a step
MAX_NAME_BYTES = 200  # of a function, a rule, a site class or a knob


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Rule steps at a candidate, taken together. rationale: if empty, the last step's rule describes it."""

    at: Candidate
    steps: tuple[Step, ...]
    rationale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The target of a refinement: a term of the price, in us."""

    term: str
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The request behind a language model's sketch: its purpose, its digest, its aim if it names one."""

    purpose: str
    call: str
    aim: Aim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A strategy written for the Problem: a function of a source in the restricted language."""

    function: str
    source: str
    rationale: str
    direction: Direction = Direction.FORWARD  # the direction it was written for
    transposed: bool = False  # try the transpose of a strategy written for the forward
    written: Written | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe that begins with it."""
        written = Recipe(base=source_base(self.source, self.function))
        return Recipe(base=TransposeOf(recipe=written)) if self.transposed else written


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSketch:
    """A proven sketch, with `Case direction: how: message` for each failure on the ranks."""

    sketch: Sketch
    where: tuple[str, ...]


Proposal = Rewrite | Sketch


def bad_form(proposal: object) -> str:
    """Return, for the proposer, why a value cannot be tried as a proposal; empty if it can.

    Proposers are not trusted: a type may be wrong, and a text may fit no table.
    """
    match proposal:
        case Sketch(function=function, source=source, rationale=rationale):
            texts = [("function", function, MAX_NAME_BYTES), ("source", source, MAX_SOURCE_BYTES)]
        case Rewrite(at=Candidate(), steps=tuple() as steps, rationale=rationale) if steps:
            for step in steps:
                if not isinstance(step, tuple) or len(step) != len(PARTS):
                    return f"a step must be a tuple of {', '.join(PARTS)} (got {reprlib.repr(step)})"
            texts = [
                (name, part, MAX_NAME_BYTES) for step in steps for name, part in zip(PARTS, step, strict=True)
            ]
        case Rewrite(at=at, steps=steps):
            got = f"{_kind(at)} and {reprlib.repr(steps)}"
            return f"`at` must be a candidate (an elite), `steps` a tuple of at least one step (got {got})"
        case _:
            return f"a proposal must be a Rewrite or a Sketch (got {_kind(proposal)})"
    texts.append(("rationale", rationale, MAX_SOURCE_BYTES))
    return next(filter(None, (_bad_text(*text) for text in texts)), "")


def _bad_text(name: str, text: object, most_bytes: int) -> str:
    if not isinstance(text, str):
        return f"`{name}` must be a text (got {_kind(text)})"
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        return f"`{name}` must be text that UTF-8 can hold (character {error.start} is half a surrogate pair)"
    return f"`{name}` must have at most {most_bytes} bytes (got {size})" if size > most_bytes else ""


def _kind(value: object) -> str:
    return type(value).__name__


class ProposalOutcome(StrEnum):
    """The outcome of a proposal."""

    PROGRAM = "program"
    DUPLICATE = "duplicate"
    DOES_NOT_APPLY = "does_not_apply"
    REJECTED = "rejected"
    ILLEGAL = "illegal"
    INFEASIBLE = "infeasible"
    NOT_PROVEN = "not_proven"


PRICED = frozenset({ProposalOutcome.PROGRAM, ProposalOutcome.INFEASIBLE, ProposalOutcome.NOT_PROVEN})
EVALUATED = PRICED | {ProposalOutcome.DUPLICATE}
"""Outcomes counted as evaluations: the cost model priced the Program, now or (a duplicate) before. Other proposals
come to no Program and do not use the cost model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One proposal and its outcome.

    Attributes:
        steps, sketch: Both missing for a strategy of people.
        parent, value_digest: Of the Programs before and after; None without one.
    """

    parent: str | None
    origin: Origin
    steps: tuple[Step, ...]
    sketch: Sketch | None
    rationale: str
    outcome: ProposalOutcome
    value_digest: str | None
    message: str  # why it gives no Program to choose, for people and for the proposer
    stage: Stage
