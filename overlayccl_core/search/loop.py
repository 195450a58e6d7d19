"""One search of one Case and direction: explore, prove the promising Programs, choose the cheapest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from overlayccl_core.configuration.searches import Search
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.archive import Archive, Base
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.family import is_lossy
from overlayccl_core.search.labels import DROP_BOUNDARY, ORDER_RULES, other_orders
from overlayccl_core.search.proposal import Attempt
from overlayccl_core.search.proposer import Clock, Proposer, ProposerFailed, Standing, proposals_of
from overlayccl_core.search.proxy import FullSize
from overlayccl_core.search.rules import structural_steps

MOST_CLASSES = 4  # all their subsets are tried at the end: each class doubles the number


class SearchStop(StrEnum):
    """Why a search ended; all but the first two are cuts by a guard."""

    NO_NEW_ELITE = "no_new_elite"  # by itself: nothing was left to propose
    PROPOSER_FAILED = "proposer_failed"
    ROUNDS = "rounds"
    PROGRAMS = "programs"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Why a search stopped, and the number of its rounds. failure: the proposer's error, if any."""

    stop: SearchStop
    rounds: int
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search.

    Attributes:
        elites: The cheapest Program of every family, without those proven wrong (infeasible Programs and dear
            families are not proven).
    """

    candidates: Sequence[Candidate]
    elites: Sequence[Candidate]
    best: Candidate | None  # the cheapest proven one; None if there is none
    attempts: Sequence[Attempt]
    explored: Explored  # the proxy's search if there was one


def try_all_labels(archive: Archive, winner: Candidate) -> None:
    """Try a Program under all other labels: any classes in any other order, and its base's boundaries."""
    written = [step for step in winner.recipe.steps if step[0] not in ORDER_RULES]
    base = archive.of_recipe(Recipe(base=winner.recipe.base))
    plain = archive.of_recipe(replace(winner.recipe, steps=tuple(written)))
    plain = plain or winner
    for steps in other_orders(plain.program):
        labelled = [plain]
        for step in steps[:MOST_CLASSES]:
            labelled += [new for c in labelled if (new := archive.try_step(c, step, reorder=True))]
    in_graphs = [step for step in written if step[0] != DROP_BOUNDARY]
    if base is not None and in_graphs and len(in_graphs) < len(written):
        archive.try_step(base, *in_graphs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeker:
    """A search of one Case and direction, before it begins.

    Attributes:
        archive, bases: An empty archive of the Case, and the Programs to begin with.
        proxy: The same at a smaller Case, searched in its place; None: the Case itself is searched.
        clock: Seconds since the search began; without effect up to `search.seconds`.
    """

    search: Search
    archive: Archive
    bases: Sequence[Base]
    proxy: tuple[Archive, Sequence[Base]] | None = None
    clock: Clock

    @property
    def lossy(self) -> bool:
        """Whether Programs in fewer bits may win: on request, or because of the reference's own dtype."""
        return self.search.lossy or is_lossy(self.archive.prover.reference)

    @property
    def small(self) -> Case | None:
        """The Case of the proxy."""
        return self.proxy and self.proxy[0].prover.reference.problem.case

    def result(self, proposer: Proposer) -> SearchResult:
        """Explore, prove the promising Programs, choose the cheapest."""
        explored = self.explore(proposer)
        if self.proxy is not None and not self._at_full_size(self.proxy[0]) and not explored.failure:
            explored = replace(explored, stop=SearchStop.SECONDS)
        if winner := self._winner():
            try_all_labels(self.archive, winner)
        elites = self._elites()
        self._prove_some_others(elites)
        return SearchResult(
            candidates=self.archive.candidates,
            elites=elites,
            best=self._winner(),
            attempts=self.archive.attempts,
            explored=explored,
        )

    def begin(self) -> Standing:
        """Enter the Programs to begin with; return the state before any proposal."""
        archive, bases = self.proxy or (self.archive, self.bases)
        archive.enter(bases)
        return Standing(archive=archive, search=self.search, clock=self.clock, rounds=0, lossy=self.lossy)

    def explore(self, proposer: Proposer) -> Explored:
        """Try proposals, at the proxy if any, until none is left, a guard cuts it, or the proposer fails."""
        standing = self.begin()
        archive, search, rounds = standing.archive, self.search, 0
        try:
            while rounds < search.rounds:
                proposals = proposals_of(proposer, replace(standing, rounds=rounds))
                if proposals is None:
                    return Explored(stop=SearchStop.NO_NEW_ELITE, rounds=rounds)
                rounds += 1
                for proposal in proposals:
                    archive.take(proposal)
                    if len(archive.candidates) >= search.programs:
                        return Explored(stop=SearchStop.PROGRAMS, rounds=rounds)
                    if self.clock() > search.seconds:
                        return Explored(stop=SearchStop.SECONDS, rounds=rounds)
                archive.try_elites_reordered()
        except ProposerFailed as failure:
            return Explored(stop=SearchStop.PROPOSER_FAILED, rounds=rounds, failure=str(failure))
        return Explored(stop=SearchStop.ROUNDS, rounds=rounds)

    def _at_full_size(self, small: Archive) -> bool:
        """Replay the proxy's promising elites, then expand the winner until it stays; False if time ran out."""
        self.archive.attempts = small.attempts
        self.archive.enter(self.bases)
        full = FullSize(
            small=small,
            full=self.archive,
            families=self.search.families,
            has_time=lambda: self.clock() <= self.search.seconds,
            sketches=tuple(a.sketch for a in small.attempts if a.sketch is not None),
        )
        if not full.replay_promising():
            return False
        expanded: set[Program] = set()
        while (winner := self._winner()) and winner.program not in expanded:
            expanded.add(winner.program)
            if not full.expand(winner, structural_steps(winner.program, lossy=self.lossy)):
                return False
            self.archive.try_elites_reordered(self.search.families)
        return True

    def _winner(self) -> Candidate | None:
        """Return the cheapest proven candidate."""
        may_win = (c for c in self.archive.candidates if self.lossy or not c.lossy)
        return next(
            (c for c in sorted(may_win, key=lambda c: c.order) if self.archive.prover.proven(c)), None
        )

    def _elites(self) -> list[Candidate]:
        """Return each family's cheapest Program not proven wrong; prove it in the `search.families` cheapest."""
        families: dict[str, list[Candidate]] = {}
        for candidate in sorted(self.archive.candidates, key=lambda c: c.order):
            families.setdefault(candidate.family, []).append(candidate)
        elites, proven = [], 0
        for members in families.values():
            to_prove = proven < self.search.families and members[0].feasible
            elite = next((c for c in members if not to_prove or self.archive.prover.proven(c)), None)
            if elite is not None:
                elites.append(elite)
                proven += to_prove
        return elites

    def _prove_some_others(self, elites: Sequence[Candidate]) -> None:
        """Prove `search.random` more Programs, drawn at random, for honest measurements."""
        known = {c.program.digest for c in elites if c.program.digest in self.archive.prover.verdicts}
        others = sorted(
            (c for c in self.archive.candidates if c.feasible and c.program.digest not in known),
            key=lambda c: c.program.digest,
        )
        wanted = self.search.random
        for index in np.random.default_rng(self.search.seed).permutation(len(others)):
            if wanted == 0:
                return
            wanted -= self.archive.prover.proven(others[index])
