"""One search of one Case and direction: explore, prove what is worth keeping, choose the cheapest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from overlayccl_core.configuration.searches import Search
from overlayccl_core.program.program import Program
from overlayccl_core.search import offline
from overlayccl_core.search.archive import Archive, Base, Clock, Stop, explore, try_all_labels
from overlayccl_core.search.candidate import Candidate, Sketch, Stage
from overlayccl_core.search.family import is_lossy
from overlayccl_core.search.judge import Judge, Prover
from overlayccl_core.search.proxy import Replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search ends with.

    elites: of every family the cheapest that is not shown wrong (infeasible ones are not proven); best: the
    cheapest that is proven, None if nothing is. stop: of the proxy's search where there was one.
    """

    candidates: Sequence[Candidate]
    elites: Sequence[Candidate]
    best: Candidate | None
    sketches: Sequence[Sketch]
    stop: Stop
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeker:
    """What one search works with; the clock counts seconds since it began and only ever stops it."""

    judge: Judge
    prover: Prover
    search: Search
    clock: Clock

    @property
    def lossy(self) -> bool:
        """Whether Programs in fewer bits may win: asked for, or the reference's own dtype."""
        return self.search.lossy or is_lossy(self.prover.reference)

    def directly(self, bases: Iterable[Base]) -> Found:
        """Search at the Case itself."""
        archive = Archive(judge=self.judge)
        explore(archive, bases, self.search, self.clock, lossy=self.lossy)
        return self._concluded(archive)

    def through_proxy(self, small: Judge, small_bases: Iterable[Base], bases: Iterable[Base]) -> Found:
        """Search at a smaller Case, replay the recipe of every elite, then turn the winner's knobs."""
        proxy = Archive(judge=small, stage=Stage.PROXY)
        explore(proxy, small_bases, self.search, self.clock, lossy=self.lossy)
        archive = Archive(
            judge=self.judge, sketches=list(proxy.sketches), stop=proxy.stop, rounds=proxy.rounds
        )
        archive.enter(bases)
        replayed = Replayed(archive)
        for elite in proxy.cheapest():
            replayed.follow(elite.recipe)
        self._polish(archive)
        return self._concluded(archive)

    def _polish(self, archive: Archive) -> None:
        """Expand the winner until it stays the same."""
        rules = offline.structural_rules(lossy=self.lossy)
        expanded: set[Program] = set()
        while (winner := self._winner(archive)) and winner.program not in expanded:
            if self.clock() > self.search.seconds:
                archive.stop = Stop.SECONDS
                return
            expanded.add(winner.program)
            for step in offline.proposals(winner.program, rules):
                archive.try_step(winner, step)

    def _concluded(self, archive: Archive) -> Found:
        if winner := self._winner(archive):
            try_all_labels(archive, winner)
        elites = self._elites(archive)
        self._prove_some_others(archive, elites)
        return Found(
            candidates=archive.candidates,
            elites=elites,
            best=self._winner(archive),
            sketches=archive.sketches,
            stop=archive.stop,
            rounds=archive.rounds,
        )

    def _winner(self, archive: Archive) -> Candidate | None:
        """The cheapest that is proven."""
        may_win = (c for c in archive.candidates if self.lossy or not c.lossy)
        return next((c for c in sorted(may_win, key=lambda c: c.order) if self.prover.proven(c)), None)

    def _elites(self, archive: Archive) -> list[Candidate]:
        """Of every family the cheapest that holds; a family whose Programs are all wrong has none."""
        families: dict[str, list[Candidate]] = {}
        for candidate in sorted(archive.candidates, key=lambda c: c.order):
            families.setdefault(candidate.family, []).append(candidate)
        found = (
            next((c for c in members if not c.feasible or self.prover.proven(c)), None)
            for members in families.values()
        )
        return [c for c in found if c is not None]

    def _prove_some_others(self, archive: Archive, elites: Sequence[Candidate]) -> None:
        """Prove so many Programs besides the elites, drawn at random: what is measured of them is honest."""
        kept = {c.program.digest for c in elites}
        others = sorted(
            (c for c in archive.candidates if c.feasible and c.program.digest not in kept),
            key=lambda c: c.program.digest,
        )
        wanted = self.search.random
        for index in np.random.default_rng(self.search.seed).permutation(len(others)):
            if wanted == 0:
                return
            wanted -= self.prover.proven(others[index])
