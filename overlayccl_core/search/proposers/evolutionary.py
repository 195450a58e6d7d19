"""Evolutionary search: the cheapest Programs of the cheapest families breed.

A child is a mutation (one rule step at a parent) or a crossover (the end of one parent's recipe at the other). A
step names a rule, a class of sites and a knob, but no Program, so it may be tried at any. If the class is missing
there, the step does not apply and costs no evaluation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from overlayccl_core.rewrites.apply import Step
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.drawn import DrawnSearch, Untried, may_begin
from overlayccl_core.search.labels import LABEL_RULES
from overlayccl_core.search.proposal import Rewrite
from overlayccl_core.search.proposer import Standing


class Search(DrawnSearch):
    """An evolutionary search."""

    population: int = Field(
        ge=1, description="Programs that may breed: the cheapest of each of the cheapest families first"
    )
    tournament: int = Field(
        ge=1, description="parents are drawn so many at a time, and the cheapest of them breeds"
    )
    crossover: float = Field(
        ge=0, lt=1, description="share of children that are crossed, below 1; others are mutations"
    )


@dataclass(slots=True)
class Evolutionary:
    """One child a round.

    The population is the cheapest Program of each of the cheapest families, then other cheap ones; a Program
    without mutations left makes room for the next. No child is bred twice. The search ends when its evaluations
    are spent, or no mutation is left.
    """

    search: Search
    random: np.random.Generator
    untried: Untried
    _bred: set[tuple[str, tuple[Step, ...]]] = field(default_factory=set)
    _spent: set[str] = field(default_factory=set)  # Programs without a mutation left

    def propose(self, standing: Standing) -> Sequence[Rewrite] | None:
        """Return the next child; None at the end."""
        if standing.evaluations >= self.search.evaluations:
            return None
        while population := self._population(standing):
            parent = self._selected(population)
            steps = self._steps(parent, population, standing)
            if steps and (parent.program.digest, steps) not in self._bred:
                self._bred.add((parent.program.digest, steps))
                return [Rewrite(at=parent, steps=steps)]
        return None

    def _population(self, standing: Standing) -> list[Candidate]:
        """Return the population, winners of tournaments first."""
        able = (
            c
            for c in standing.archive.candidates
            if c.program.digest not in self._spent and may_begin(c, standing)
        )
        ranked = sorted(able, key=lambda c: (not c.feasible, not standing.is_elite(c), c.order))
        return sorted(ranked[: self.search.population], key=lambda c: (not c.feasible, c.order))

    def _selected(self, population: Sequence[Candidate]) -> Candidate:
        """Return the winner of a tournament."""
        return population[int(self.random.integers(len(population), size=self.search.tournament).min())]

    def _steps(
        self, parent: Candidate, population: Sequence[Candidate], standing: Standing
    ) -> tuple[Step, ...]:
        """Return the steps from a parent to its child; empty if none of its kind is left."""
        if self.random.random() >= self.search.crossover:
            step = self.untried.step_at(parent, standing)
            if step is None:
                self._spent.add(parent.program.digest)
            return () if step is None else (step,)
        other = self._selected(population)
        steps = tuple(step for step in other.recipe.steps if step[0] not in LABEL_RULES)
        return steps[self.random.integers(len(steps)) :] if steps else ()


def proposer(search: Search) -> Evolutionary:
    """Return a new proposer for a Case and direction."""
    random = np.random.default_rng(search.seed)
    return Evolutionary(search, random, Untried(random))
