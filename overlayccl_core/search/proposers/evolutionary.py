"""Evolutionary search: the cheapest Programs of the cheapest families breed.

A child is a mutation, one rule step at a parent, or a crossover: the end of one parent's recipe at the other. A step
names a rule, a class of sites and a knob, nothing of the Program that it was first taken at, so it may be tried at
any; where there is no such class it does not apply, which costs no evaluation.
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

DRAWS = 200  # in a row that bring nothing new, after which it ends


class Search(DrawnSearch):
    """An evolutionary search."""

    population: int = Field(
        ge=1, description="parents: of so many of the cheapest families the cheapest Program"
    )
    tournament: int = Field(
        ge=1, description="parents are drawn so many at a time, and the cheapest of them breeds"
    )
    crossover: float = Field(ge=0, le=1, description="share of children that are crossed; others are mutations")


@dataclass(slots=True)
class Evolutionary:
    """One child a round; it lives on if it is the cheapest of its family, as the archive keeps those.

    No child is bred twice. It ends when its evaluations are spent, or draws bring no new child any more.
    """

    search: Search
    random: np.random.Generator
    untried: Untried
    _bred: set[tuple[str, tuple[Step, ...]]] = field(default_factory=set)

    def propose(self, standing: Standing) -> Sequence[Rewrite] | None:
        """The next child; None if it ends."""
        elites = sorted(standing.elites, key=lambda c: (not c.feasible, c.order))
        population = [c for c in elites if may_begin(c, standing)][: self.search.population]
        if not population or standing.evaluations >= self.search.evaluations:
            return None
        for _ in range(DRAWS):
            parent = self._selected(population)
            steps = self._steps(parent, population, standing)
            if steps and (parent.program.digest, steps) not in self._bred:
                self._bred.add((parent.program.digest, steps))
                return [Rewrite(at=parent, steps=steps)]
        return None

    def _selected(self, population: Sequence[Candidate]) -> Candidate:
        """The winner of a tournament: the population stands in order of price."""
        return population[self.random.integers(len(population), size=self.search.tournament).min()]

    def _steps(
        self, parent: Candidate, population: Sequence[Candidate], standing: Standing
    ) -> tuple[Step, ...]:
        """What makes the child of a parent; empty where nothing is left of its kind."""
        if self.random.random() >= self.search.crossover:
            step = self.untried.step_at(parent, standing)
            return () if step is None else (step,)
        other = self._selected(population)
        steps = tuple(step for step in other.recipe.steps if step[0] not in LABEL_RULES)
        return steps[self.random.integers(len(steps)) :] if steps else ()


def proposer(search: Search) -> Evolutionary:
    """A new one for each Case and direction."""
    random = np.random.default_rng(search.seed)
    return Evolutionary(search, random, Untried(random))
