"""Where one search of a Problem asks a language model: who answers, what it is told, and what it brought.

A desk serves all Cases and both directions of the Problem. A style (search/styles/) holds conversations here and
yields the sketches that come of them.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from overlayccl_core.asking.conversation import Answer, Message, NoAnswer, Request, Tool, User
from overlayccl_core.asking.ledger import Call, Ledger
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.allowance import Place
from overlayccl_core.search.answers import FORM_OF, sketch_of
from overlayccl_core.search.briefing import Briefing
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.facts import DeploymentFacts
from overlayccl_core.search.proposal import Attempt, FailedSketch, ProposalOutcome, Sketch, Written
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import Purpose

FINE = (ProposalOutcome.PROGRAM, ProposalOutcome.DUPLICATE)
AGAIN = "it computes what was refused before"
DRAWS = 1000  # conversations of one seed that begin with equal words, at most


@dataclass(slots=True, kw_only=True)
class Desk:
    """search: with the fields of `asked.Search`. leads: where it is asked. ended: why it is asked no more.

    failed: what a second round asks about; None: it is the first.
    """

    search: Any
    ledger: Ledger
    facts: DeploymentFacts
    leads: frozenset[Place]
    failed: tuple[FailedSketch, ...] | None = None
    ended: str = ""
    _brought: list[Sketch] = field(default_factory=list)
    _taken: int = 0  # calls of the ledger

    def take_calls(self) -> list[Call]:
        """What was asked since this was asked for last."""
        taken, self._taken = self.ledger.calls[self._taken :], len(self.ledger.calls)
        return taken

    def asks(self, place: Place) -> bool:
        """Whether the model is asked there."""
        return place in self.leads

    def brought(self, problem: Problem) -> Iterator[Sketch]:
        """What was right where the model was asked: at a linear backward as its transpose."""
        for sketch in tuple(self._brought):
            if problem.direction is sketch.direction:
                yield replace(sketch, transposed=False)
            elif problem.linear:
                yield replace(sketch, transposed=True)

    def talk(self, standing: Standing, tools: tuple[Tool, ...] = (), draw: int = 0) -> "Talk":
        """A new conversation about a search as it stands. draw: tells apart those that begin with equal words."""
        briefing = Briefing(standing=standing, facts=self.facts, show_scores=self.search.show_scores)
        return Talk(desk=self, briefing=briefing, tools=tools, draw=draw)

    def best(self, drafts: Iterable["Draft"]) -> list["Draft"]:
        """Cheapest first; where no score is shown, as they came."""
        return sorted(drafts, key=lambda d: d.candidate.order) if self.search.show_scores else list(drafts)

    def drafted(
        self, talk: "Talk", standing: Standing, purpose: Purpose, aim: "Aim | None" = None, **more: Any
    ) -> "Drafting":
        """Tries the sketch that one answer holds, mended as often as the search allows; the draft that it came to.

        None where it stays wrong, or cannot run. NoAnswer where asking on is in vain.
        """
        try:
            answer = talk.say(purpose, aim=aim, **more)
            for repairs_left in range(self.search.repairs, -1, -1):
                said = sketch_of(answer)
                attempt, draft = yield from self.tried(talk, standing, purpose, said, aim)
                if draft is not None or not repairs_left:
                    return draft
                purpose = Purpose.REPAIR
                wrong = attempt.message if said.function else said.rationale
                if attempt.outcome is ProposalOutcome.DUPLICATE:
                    wrong = AGAIN
                answer = talk.say(purpose, outcome=attempt.outcome.value, message=wrong)
        except NoAnswer as error:
            if error.final:
                raise
        return None

    def mended(self, standing: Standing) -> Iterator[Sketch]:
        """One in place of each that failed on the ranks, in a conversation of its own; NoAnswer as `drafted`."""
        for one in self.failed or ():
            if one.sketch.direction is standing.problem.direction:
                yield from self.drafted(self.talk(standing), standing, Purpose.MEND, failed=one)

    def tried(
        self, talk: "Talk", standing: Standing, purpose: Purpose, said: Sketch, aim: "Aim | None" = None
    ) -> Generator[Sketch, None, tuple[Attempt, "Draft | None"]]:
        """Tries what was said: what became of it, and a draft where it is right and can run."""
        written = Written(
            purpose=purpose.value,
            call=talk.digest,
            term=None if aim is None else aim.term,
            term_us=None if aim is None else aim.us,
        )
        sketch = replace(said, direction=standing.problem.direction, written=written)
        yield sketch
        attempt = standing.attempt_at(sketch)
        candidate = standing.candidate_of(attempt)
        if candidate is None or attempt.outcome not in FINE or not candidate.feasible:
            return attempt, None
        if attempt.outcome is ProposalOutcome.PROGRAM:
            self._brought.append(sketch)
        return attempt, Draft(sketch=sketch, candidate=candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A sketch that is right, and the candidate that it came to: new, or known before."""

    sketch: Sketch
    candidate: Candidate


Drafting = Generator[Sketch, None, Draft | None]
"""Yields sketches, each to be tried before the next; returns what the last came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a refinement is to make less: the largest term of a price, in us."""

    term: str
    us: float

    @classmethod
    def of(cls, candidate: Candidate) -> "Aim | None":
        """None where there is no price."""
        terms = candidate.price.terms
        if candidate.price.us is None or not terms:
            return None
        largest = max(terms, key=lambda term: (terms[term], term))
        return cls(term=largest.value, us=terms[largest])


@dataclass(slots=True, kw_only=True)
class Talk:
    """One conversation. digest: of the request that was answered last."""

    desk: Desk
    briefing: Briefing
    tools: tuple[Tool, ...] = ()
    draw: int = 0
    digest: str = ""
    _messages: tuple[Message, ...] = ()

    def say(self, purpose: Purpose, **more: Any) -> Answer:
        """The answer to the prompt of a purpose, filled in with `more`; NoAnswer where there is none."""
        return self.send(purpose, self.message(purpose, **more))

    def message(self, purpose: Purpose, **more: Any) -> User:
        """The prompt of a purpose, filled in with `more`."""
        return User(text=self.briefing.prompt(purpose, **more))

    def send(self, purpose: Purpose, message: User) -> Answer:
        """The answer to a message; the conversation is longer by both. NoAnswer where there is none."""
        request = self.request(purpose, message)
        self.digest = request.digest
        answer = self.desk.ledger.ask(request, purpose=purpose.value, style=self.desk.search.style)
        self._messages = (*request.messages, answer.turn)
        return answer

    def request(self, purpose: Purpose, message: User) -> Request:
        """What `send` would ask."""
        search = self.desk.search
        return Request(
            system=self.briefing.system,
            messages=(*self._messages, message),
            tools=self.tools,
            answer_schema=None if self.tools else FORM_OF.get(purpose),
            sample=search.seed * DRAWS + self.draw,
            **search.how(purpose),
        )
