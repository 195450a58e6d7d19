"""Random search: a random rule step at a random candidate. It learns nothing; others must beat it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.drawn import DrawnSearch, Untried, may_begin
from overlayccl_core.search.proposal import Rewrite
from overlayccl_core.search.proposer import Standing


class Search(DrawnSearch):
    """A random search."""


@dataclass(slots=True)
class RandomSteps:
    """One step a round. All candidates are equally likely, whatever their price, and so are the steps of one.

    No step is taken twice at a candidate. The search ends when its evaluations are spent, or no step is left.
    """

    search: Search
    random: np.random.Generator
    untried: Untried
    _open: list[Candidate] = field(default_factory=list)  # may have steps left
    _seen: int = 0  # of the archive's candidates

    def propose(self, standing: Standing) -> Sequence[Rewrite] | None:
        """Return the next step; None at the end."""
        candidates = standing.archive.candidates
        self._open += [c for c in candidates[self._seen :] if may_begin(c, standing)]
        self._seen = len(candidates)
        while self._open and standing.evaluations < self.search.evaluations:
            at = int(self.random.integers(len(self._open)))
            if step := self.untried.step_at(self._open[at], standing):
                return [Rewrite(at=self._open[at], steps=(step,))]
            del self._open[at]
        return None


def proposer(search: Search) -> RandomSteps:
    """Return a new proposer for a Case and direction."""
    random = np.random.default_rng(search.seed)
    return RandomSteps(search, random, Untried(random))
