"""What a proposer is: a file of search/proposers/, or of a folder of one's own, that says what to try next.

A search has rounds. Each begins with `propose`, which sees how the search stands and gives proposals: rule steps
at a candidate, or sketches (strategies in the restricted language). The loop takes them one at a time, so a
proposer that yields them sees what became of the last before it makes the next. Nothing has to trust a proposer:
a sketch is traced and proven before it counts, a rule's Program before it is kept.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.asking.conversation import LanguageModel
from overlayccl_core.configuration.searches import MENDED, PROPOSERS, Search
from overlayccl_core.program.kinds import LONGEST_MESSAGE
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.proposal import EVALUATED, Attempt, Proposal, Sketch

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is left of a search's guards."""

    rounds: int
    programs: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a search stands at the moment at which it is looked at. All of it is to be read only.

    lossy: whether Programs in fewer bits may win. clock: seconds since the search began. rounds: that have begun.
    """

    archive: Archive
    search: Search
    clock: Clock
    rounds: int
    lossy: bool

    @property
    def problem(self) -> Problem:
        """What is to be solved: the Case (a smaller one in a large one's place) and the direction."""
        return self.archive.prover.reference.problem

    @property
    def elites(self) -> list[Candidate]:
        """The cheapest Program of every family, cheapest first; a price says of what terms it is made."""
        return self.archive.cheapest()

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Every proposal so far with its outcome and message, the latest last."""
        return tuple(self.archive.attempts)

    @property
    def evaluations(self) -> int:
        """Attempts so far that came to a Program with a price, a new one or one that was known."""
        return sum(attempt.outcome in EVALUATED for attempt in self.archive.attempts)

    @property
    def budget(self) -> Budget:
        """What is left."""
        return Budget(
            rounds=self.search.rounds - self.rounds,
            programs=self.search.programs - len(self.archive.candidates),
            seconds=self.search.seconds - self.clock(),
        )

    def is_elite(self, candidate: Candidate) -> bool:
        """Whether no cheaper one of its family has come."""
        return self.archive.elites.get(candidate.family) is candidate

    def attempt_at(self, sketch: Sketch) -> Attempt:
        """What became of the sketch that was tried last."""
        tried = reversed(self.archive.attempts)
        return next((one for one in tried if one.sketch is sketch), self.archive.attempts[-1])

    def candidate_of(self, attempt: Attempt) -> Candidate | None:
        """What an attempt came to, new or known before; None if it came to nothing that may be chosen."""
        return None if attempt.value_digest is None else self.archive.known.get(attempt.value_digest)


class Proposer(Protocol):
    """Who proposes in one search of one Case and direction; it may remember what it said."""

    def propose(self, standing: Standing) -> Iterable[Proposal] | None:
        """The proposals of a round, best made one at a time; None where nothing is left to propose."""


class ProposerFailed(Exception):
    """A proposer raised, or gave nothing to iterate over; the message says what and where, in one line."""


def proposals_of(proposer: Proposer, standing: Standing) -> Iterator[Proposal] | None:
    """The proposals of a round; None where nothing is left. ProposerFailed, at once or while they are taken."""
    try:
        proposals = proposer.propose(standing)
        return None if proposals is None else _taken(iter(proposals))
    except Exception as error:
        raise _failed(error) from error


def _taken(proposals: Iterator[Proposal]) -> Iterator[Proposal]:
    try:
        yield from proposals
    except Exception as error:
        raise _failed(error) from error


def _failed(error: Exception) -> ProposerFailed:
    said = " ".join("".join(traceback.format_exception_only(error)).split())
    said = said.encode(errors="backslashreplace").decode()[:LONGEST_MESSAGE]
    last = traceback.extract_tb(error.__traceback__)[-1]
    return ProposerFailed(f"{said} ({last.filename}, line {last.lineno})")


class ProposerPlugIn(Protocol):
    """What a file in search/proposers/ defines that says itself what to try.

    proposer: a new Proposer for a Case and direction. It must be deterministic but for what it asks of others.
    Search, if there is one: the class of its searches, derived from `configuration.searches.Search`, with fields of
    its own; `proposer` then gets one of these.
    """

    proposer: Callable[[Any], Proposer]


class LanguageModelPlugIn(Protocol):
    """What one defines that asks a language model instead; the search's `style` says how it is asked.

    Search: derived from `asked.Search`. language_model: who answers such a search; making it asks nothing. check:
    ValueError with the mend where nobody could, before anything starts. desk, proposer: those of `asked.py`. What
    asking needs is imported by such files alone, so that it is no code of searches that ask nobody.
    """

    Search: type[Search]
    language_model: Callable[[Any], LanguageModel]
    check: Callable[[Any], None]
    desk: Callable[..., Any]
    proposer: Callable[..., Proposer]


def plug_in(name: str) -> ProposerPlugIn:
    """The proposer of that name; ValueError naming those there are."""
    return loader.plug_in(ProposerPlugIn, PROPOSERS, name)


def asks(name: str) -> LanguageModelPlugIn | None:
    """The proposer of that name, if it asks a language model; ValueError naming those there are."""
    if not hasattr(loader.load(PROPOSERS, name), "language_model"):
        return None
    return loader.plug_in(LanguageModelPlugIn, PROPOSERS, name)


def rounds(search: Search) -> tuple[str, ...]:
    """The names under which a search is run: its own; where it asks a language model, that of its second round."""
    return (search.name,) if asks(search.proposer) is None else (search.name, f"{search.name}{MENDED}")
