"""The desk: asks a language model during the searches of a Problem, and keeps the resulting sketches.

A desk serves all Cases and both directions of the Problem. A style (search/styles/) holds conversations here and
yields their sketches; the proposer of a Case and direction hands them to the search.
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
from overlayccl_core.search.proposal import (
    Aim,
    Attempt,
    FailedSketch,
    Proposal,
    ProposalOutcome,
    Sketch,
    Written,
)
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.proposers.offline import Offline
from overlayccl_core.search.style import AskPurpose, style

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
    sketches: list[Sketch] = field(default_factory=list)  # the valid ones
    _taken: int = 0  # calls of the ledger

    def take_calls(self) -> list[LedgerEntry]:
        """Return the calls since the last take."""
        taken, self._taken = self.ledger.calls[self._taken :], len(self.ledger.calls)
        return taken

    def asks(self, place: Place) -> bool:
        """Return whether the model is asked there."""
        return place in self.leads

    def proposer(self, place: Place) -> "ModelProposer":
        """Return a new proposer for a Case and direction."""
        return ModelProposer(desk=self, asks=self.asks(place), rules=Offline(self.search))

    def brought(self, problem: Problem) -> Iterator[Sketch]:
        """Yield the model's valid sketches: as they are in their own direction, else transposed if linear."""
        for sketch in tuple(self.sketches):
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

    def mended(self, standing: Standing) -> Iterator[Sketch]:
        """Yield one in place of each failed sketch, from a conversation of its own; NoAnswer as in a style."""
        for one in self.failed or ():
            if one.sketch.direction is standing.problem.direction:
                yield from self.talk(standing).drafted(AskPurpose.MEND, failed=one)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A right sketch and its candidate: new, or known before."""

    sketch: Sketch
    candidate: Candidate


@dataclass(slots=True, kw_only=True)
class Talk:
    """One conversation. digest: of the last request."""

    desk: Desk
    briefing: Briefing
    tools: tuple[Tool, ...] = ()
    draw: int = 0
    digest: str = ""
    _messages: tuple[Message, ...] = ()

    def drafted(
        self, purpose: AskPurpose, aim: Aim | None = None, **more: Any
    ) -> Generator[Sketch, None, Draft | None]:
        """Ask, yield the sketch of the answer, and repair it as often as the search allows.

        Yields:
            Sketches, each to be tried before the next.

        Returns:
            The draft; None if the sketch stays wrong or cannot run, or an answer is missing.

        Raises:
            NoAnswer: Further questions are in vain.
        """
        try:
            answer = self.say(purpose, aim=aim, **more)
            for repairs_left in range(self.desk.search.repairs, -1, -1):
                said = sketch_of(answer)
                attempt, draft = yield from self.tried(purpose, said, aim)
                if draft is not None or not repairs_left:
                    return draft
                purpose = AskPurpose.REPAIR
                wrong = attempt.message if said.function else said.rationale
                if attempt.outcome is ProposalOutcome.DUPLICATE:
                    wrong = AGAIN
                answer = self.say(purpose, outcome=attempt.outcome.value, message=wrong)
        except NoAnswer as error:
            if error.final:
                raise
        return None

    def tried(
        self, purpose: AskPurpose, said: Sketch, aim: Aim | None = None
    ) -> Generator[Sketch, None, tuple[Attempt, Draft | None]]:
        """Yield a sketch to be tried; return its attempt, and a draft if it is right and can run."""
        standing = self.briefing.standing
        written = Written(purpose=purpose.value, call=self.digest, aim=aim)
        sketch = replace(said, direction=standing.problem.direction, written=written)
        yield sketch
        attempt = standing.attempt_at(sketch)
        candidate = standing.candidate_of(attempt)
        if candidate is None or attempt.outcome not in FINE or not candidate.feasible:
            return attempt, None
        if attempt.outcome is ProposalOutcome.PROGRAM:
            self.desk.sketches.append(sketch)
        return attempt, Draft(sketch=sketch, candidate=candidate)

    def say(self, purpose: AskPurpose, **more: Any) -> Answer:
        """Return the answer to a purpose's prompt, filled in with `more`, or raise NoAnswer."""
        return self.send(purpose, self.message(purpose, **more))

    def message(self, purpose: AskPurpose, **more: Any) -> User:
        """Return a purpose's prompt, filled in with `more`."""
        return User(text=self.briefing.prompt(purpose, **more))

    def send(self, purpose: AskPurpose, message: User) -> Answer:
        """Return the answer to a message, and append both to the conversation; or raise NoAnswer."""
        request = self.request(purpose, message)
        self.digest = request.digest
        answer = self.desk.ledger.ask(request, purpose=purpose.value, style=self.desk.search.style)
        self._messages = (*request.messages, answer.turn)
        return answer

    def request(self, purpose: AskPurpose, message: User) -> Request:
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


@dataclass(slots=True, kw_only=True)
class ModelProposer:
    """The proposer of one Case and direction. asks: whether the model is asked here."""

    desk: Desk
    asks: bool
    rules: Offline
    _begun: bool = False

    def propose(self, standing: Standing) -> Iterator[Proposal] | None:
        """Return the model's sketches, from here or elsewhere, in the first round; then rule steps at them."""
        if self._begun:
            return self.rules.propose(standing) if self.desk.search.polish else None
        self._begun = True
        return self._sketches(standing)

    def _sketches(self, standing: Standing) -> Iterator[Proposal]:
        desk = self.desk
        if not self.asks:
            yield from desk.brought(standing.problem)
            return
        try:
            if desk.failed is None:
                yield from style(desk.search.style).propose(desk, standing)
            else:
                yield from desk.mended(standing)
        except NoAnswer as error:
            desk.ended = str(error)
