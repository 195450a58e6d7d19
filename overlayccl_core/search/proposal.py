"""Proposals: what a search may try, and the record of each that it tried."""

from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.program.problem import Direction
from overlayccl_core.program.source_check import MAX_SOURCE_BYTES
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, source_base
from overlayccl_core.search.candidate import Candidate, Origin, Stage

MAX_NAME_BYTES = 200  # of a function, a rule, a site class or a knob


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Rule steps at a candidate, taken together. rationale: empty says what the last step's rule does."""

    at: Candidate
    steps: tuple[Step, ...]
    rationale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How a language model came to write a sketch.

    purpose, call: what it was asked for, and the digest of the request. term, term_us: of the price of what it was
    to make cheaper, where it was asked to.
    """

    purpose: str
    call: str
    term: str | None = None
    term_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A strategy that somebody wrote for the Problem: a function of a source in the restricted language.

    direction: it was written for. transposed: it is tried as the transpose of what was written for the forward.
    """

    function: str
    source: str
    rationale: str
    direction: Direction = Direction.FORWARD
    transposed: bool = False
    written: Written | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe that begins at it."""
        written = Recipe(base=source_base(self.source, self.function))
        return Recipe(base=TransposeOf(recipe=written)) if self.transposed else written


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSketch:
    """A proven sketch, and `Case direction: how: what was said` of each place where it failed on the ranks."""

    sketch: Sketch
    where: tuple[str, ...]


Proposal = Rewrite | Sketch


def bad_form(proposal: object) -> str:
    """Why something cannot be tried as a proposal, for who made it; empty where it can.

    Who proposes is not trusted: a type may be wrong, and a text may be one that no table can hold.
    """
    match proposal:
        case Sketch(function=function, source=source, rationale=rationale):
            return (
                _bad_text("function", function, MAX_NAME_BYTES)
                or _bad_text("source", source, MAX_SOURCE_BYTES)
                or _bad_text("rationale", rationale, MAX_SOURCE_BYTES)
            )
        case Rewrite(at=at, steps=steps, rationale=rationale):
            return _bad_parent(at) or _bad_steps(steps) or _bad_text("rationale", rationale, MAX_SOURCE_BYTES)
        case _:
            return f"a proposal must be a Rewrite or a Sketch (got {_kind(proposal)})"


def _bad_parent(at: object) -> str:
    if isinstance(at, Candidate):
        return ""
    return f"`at` must be a candidate (got {_kind(at)}): take one of the elites"


def _bad_steps(steps: object) -> str:
    if not isinstance(steps, tuple) or not steps:
        return f"`steps` must be a tuple of at least one step (got {'none' if steps == () else _kind(steps)})"
    for step in steps:
        if not isinstance(step, tuple) or len(step) != 3:
            got = f"{len(step)} parts" if isinstance(step, tuple) else _kind(step)
            return f"a step must be a tuple of rule, class and knob (got {got})"
        for name, part in zip(("rule", "class", "knob"), step, strict=True):
            if wrong := _bad_text(name, part, MAX_NAME_BYTES):
                return wrong
    return ""


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
    """What became of a proposal."""

    PROGRAM = "program"
    DUPLICATE = "duplicate"
    DOES_NOT_APPLY = "does_not_apply"
    REJECTED = "rejected"
    ILLEGAL = "illegal"
    INFEASIBLE = "infeasible"
    NOT_PROVEN = "not_proven"


PRICED = frozenset({ProposalOutcome.PROGRAM, ProposalOutcome.INFEASIBLE, ProposalOutcome.NOT_PROVEN})
EVALUATED = PRICED | {ProposalOutcome.DUPLICATE}
"""What counts as an evaluation: the cost model priced its Program, now or (a duplicate) before. Proposals that come
to no Program ask nothing of the cost model."""


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
