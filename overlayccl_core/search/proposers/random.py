"""Random search: a rule step at a candidate, both drawn at random. It learns nothing: what others must beat."""

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
    """One step a round. Any candidate is as likely as any other, whatever its price, and so is each of its steps.

    No step is taken twice at a candidate. It ends when its evaluations are spent, or every step was taken.
    """

    search: Search
    random: np.random.Generator
    untried: Untried
    _open: list[Candidate] = field(default_factory=list)  # which may have steps left
    _seen: int = 0  # of the archive's candidates

    def propose(self, standing: Standing) -> Sequence[Rewrite] | None:
        """The next step; None if it ends."""
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
    """A new one for each Case and direction."""
    random = np.random.default_rng(search.seed)
    return RandomSteps(search, random, Untried(random))
