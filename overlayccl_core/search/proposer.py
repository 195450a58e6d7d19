"""The interface of proposers: files of search/proposers/, or of a folder of one's own, with the next things to try.

A search runs in rounds. Each round calls `propose` with the state of the search and gets proposals: rule steps at
a candidate, or sketches (strategies in the restricted language). The loop takes proposals one at a time, so a
generator sees the outcome of the last one before it makes the next. Proposers need no trust: a sketch is traced
and proven before it counts, a rule's Program is proven before it can win.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.asking.conversation import LanguageModel
from overlayccl_core.configuration.searches import FOLDER, PROPOSERS, Search, SearchRound, load
from overlayccl_core.program.kinds import LONGEST_MESSAGE
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.proposal import EVALUATED, Attempt, Proposal, Sketch

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudget:
    """The unused part of a search's guards."""

    rounds: int
    programs: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a search, to be read only."""

    archive: Archive
    search: Search
    clock: Clock  # seconds since the search began
    rounds: int  # rounds begun before this one
    lossy: bool  # whether Programs in fewer bits may win

    @property
    def problem(self) -> Problem:
        """The Problem to solve: the Case (a smaller one in a large one's place) and the direction."""
        return self.archive.prover.reference.problem

    @property
    def elites(self) -> list[Candidate]:
        """The cheapest Program of every family, cheapest first; a price lists its terms."""
        return self.archive.cheapest()

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Every proposal so far with its outcome and message, the latest last."""
        return tuple(self.archive.attempts)

    @property
    def evaluations(self) -> int:
        """The number of attempts so far with a priced Program, new or known."""
        return sum(attempt.outcome in EVALUATED for attempt in self.archive.attempts)

    @property
    def budget(self) -> SearchBudget:
        """The remaining budget."""
        return SearchBudget(
            rounds=self.search.rounds - self.rounds,
            programs=self.search.programs - len(self.archive.candidates),
            seconds=self.search.seconds - self.clock(),
        )

    def is_elite(self, candidate: Candidate) -> bool:
        """Return whether it is still the cheapest of its family."""
        return self.archive.elites.get(candidate.family) is candidate

    def attempt_at(self, sketch: Sketch) -> Attempt:
        """Return the last attempt at a sketch; if none names it, the last attempt of all."""
        tried = reversed(self.archive.attempts)
        return next((one for one in tried if one.sketch is sketch), self.archive.attempts[-1])

    def candidate_of(self, attempt: Attempt) -> Candidate | None:
        """Return the candidate of an attempt, new or known; None if it has none."""
        return None if attempt.value_digest is None else self.archive.known.get(attempt.value_digest)


class Proposer(Protocol):
    """The source of proposals in one search of one Case and direction; it may keep state."""

    def propose(self, standing: Standing) -> Iterable[Proposal] | None:
        """Return the proposals of a round, preferably as a generator; None if there are none left."""


class ProposerFailed(Exception):
    """A proposer raised, or returned no iterable; the message gives the error and its place, in one line."""


def proposals_of(proposer: Proposer, standing: Standing) -> Iterator[Proposal] | None:
    """Return a round's proposals; None at the end. Raise ProposerFailed at once or during iteration."""
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
    """A proposer's file in search/proposers/, without a language model.

    Attributes:
        proposer: Returns a new Proposer for a Case and direction, deterministic except for answers from outside.
        Search: Optional: the class of its searches, derived from `configuration.searches.Search`, with fields of
            its own; `proposer` then gets an instance.
    """

    proposer: Callable[[Any], Proposer]


class LanguageModelPlugIn(Protocol):
    """The file of a proposer with a language model, asked in the search's `style`.

    Only such files import the code for asking, so it is no part of the code of other searches.

    Attributes:
        check: Raises ValueError, with the fix, before anything starts, if no model could answer.
    """

    Search: Any  # the class of its searches, derived from `model_search.Search`
    language_model: Callable[[Any], LanguageModel]  # returns the model of such a search; asks nothing yet
    check: Callable[[Any], None]


def plug_in(name: str) -> ProposerPlugIn:
    """Return the proposer of that name. ValueError names the existing ones."""
    return loader.plug_in(ProposerPlugIn, PROPOSERS, name)


def asks(name: str) -> LanguageModelPlugIn | None:
    """Return the proposer of that name if it asks a language model. ValueError names the existing ones."""
    if not hasattr(loader.load(PROPOSERS, name), "language_model"):
        return None
    return loader.plug_in(LanguageModelPlugIn, PROPOSERS, name)


def rounds(names: Iterable[str], folder: Path = FOLDER) -> Iterator[SearchRound]:
    """Yield the rounds of searches: one, with a language model two."""
    for name in names:
        yield SearchRound(name)
        if asks(load(name, folder).proposer):
            yield SearchRound(name, mends=True)
