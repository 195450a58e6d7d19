"""The desk: asks a language model during the searches of a Problem, and keeps the resulting sketches.

A desk serves all Cases and both directions of the Problem. A style (search/styles/) holds conversations here and
yields their sketches.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from overlayccl_core.asking.conversation import Answer, Message, NoAnswer, Request, Tool, User
from overlayccl_core.asking.ledger import Ledger, LedgerEntry
from overlayccl_core.program.problem import Place, Problem
from overlayccl_core.search.answers import FORM_OF, sketch_of
from overlayccl_core.search.briefing import Briefing
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.search.proposal import Aim, Attempt, FailedSketch, ProposalOutcome, Sketch, Written
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import Purpose

FINE = (ProposalOutcome.PROGRAM, ProposalOutcome.DUPLICATE)
AGAIN = "it computes what was refused before"
DRAWS = 1000  # most conversations of one seed with equal beginnings


@dataclass(slots=True)
class Desk:
    """The questions of one search of a Problem.

    Attributes:
        failed: The failed sketches of a second round; None in the first.
    """

    search: Any  # with the fields of `model_search.Search`
    ledger: Ledger
    facts: DeploymentFacts
    leads: frozenset[Place]  # Cases and directions at which the model is asked
    failed: tuple[FailedSketch, ...] | None = None
    ended: str = ""  # why asking ended
    _brought: list[Sketch] = field(default_factory=list)
    _taken: int = 0  # calls of the ledger

    def take_calls(self) -> list[LedgerEntry]:
        """Return the calls since the last take."""
        taken, self._taken = self.ledger.calls[self._taken :], len(self.ledger.calls)
        return taken

    def asks(self, place: Place) -> bool:
        """Return whether the model is asked there."""
        return place in self.leads

    def brought(self, problem: Problem) -> Iterator[Sketch]:
        """Yield the model's valid sketches: as they are in their own direction, else transposed if linear."""
        for sketch in tuple(self._brought):
            if problem.direction is sketch.direction:
                yield replace(sketch, transposed=False)
            elif problem.linear:
                yield replace(sketch, transposed=True)

    def talk(self, standing: Standing, tools: tuple[Tool, ...] = (), draw: int = 0) -> "Talk":
        """Begin a conversation about the search's state. draw: distinguishes those with equal beginnings."""
        briefing = Briefing(standing=standing, facts=self.facts, show_scores=self.search.show_scores)
        return Talk(desk=self, briefing=briefing, tools=tools, draw=draw)

    def best(self, drafts: Iterable["Draft"]) -> list["Draft"]:
        """Sort drafts, cheapest first; without shown scores, keep their order."""
        return sorted(drafts, key=lambda d: d.candidate.order) if self.search.show_scores else list(drafts)

    def drafted(
        self, talk: "Talk", standing: Standing, purpose: Purpose, aim: Aim | None = None, **more: Any
    ) -> "Drafting":
        """Ask, yield the sketch of the answer, and repair it as often as the search allows.

        Returns:
            The draft; None if the sketch stays wrong or cannot run, or an answer is missing.

        Raises:
            NoAnswer: Further questions are in vain.
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
        """Yield one in place of each failed sketch, from a conversation of its own; NoAnswer as in `drafted`."""
        for one in self.failed or ():
            if one.sketch.direction is standing.problem.direction:
                yield from self.drafted(self.talk(standing), standing, Purpose.MEND, failed=one)

    def tried(
        self, talk: "Talk", standing: Standing, purpose: Purpose, said: Sketch, aim: Aim | None = None
    ) -> Generator[Sketch, None, tuple[Attempt, "Draft | None"]]:
        """Yield a sketch to be tried; return its attempt, and a draft if it is right and can run."""
        written = Written(purpose=purpose.value, call=talk.digest, aim=aim)
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
    """A right sketch and its candidate: new, or known before."""

    sketch: Sketch
    candidate: Candidate


Drafting = Generator[Sketch, None, Draft | None]
"""Yields sketches, each to be tried before the next; returns the last one's draft."""


@dataclass(slots=True, kw_only=True)
class Talk:
    """One conversation. digest: of the last request."""

    desk: Desk
    briefing: Briefing
    tools: tuple[Tool, ...] = ()
    draw: int = 0
    digest: str = ""
    _messages: tuple[Message, ...] = ()

    def say(self, purpose: Purpose, **more: Any) -> Answer:
        """Return the answer to a purpose's prompt, filled in with `more`, or raise NoAnswer."""
        return self.send(purpose, self.message(purpose, **more))

    def message(self, purpose: Purpose, **more: Any) -> User:
        """Return a purpose's prompt, filled in with `more`."""
        return User(text=self.briefing.prompt(purpose, **more))

    def send(self, purpose: Purpose, message: User) -> Answer:
        """Return the answer to a message, and append both to the conversation; or raise NoAnswer."""
        request = self.request(purpose, message)
        self.digest = request.digest
        answer = self.desk.ledger.ask(request, purpose=purpose.value, style=self.desk.search.style)
        self._messages = (*request.messages, answer.turn)
        return answer

    def request(self, purpose: Purpose, message: User) -> Request:
        """Return the request of `send`."""
        search = self.desk.search
        return Request(
            system=self.briefing.system,
            messages=(*self._messages, message),
            tools=self.tools,
            answer_schema=None if self.tools else FORM_OF.get(purpose),
            sample=search.seed * DRAWS + self.draw,
            **search.how(purpose),
        )
