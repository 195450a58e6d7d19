"""Shared parts of proposers with random rule steps: the number of evaluations, and the untried steps.

Steps begin at Programs without labels only: the loop tries other labels.
"""

from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from overlayccl_core.configuration import searches
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.labels import has_labels
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.rules import structural_steps


class DrawnSearch(searches.Search):
    """A search with a drawing proposer; it ends after a number of evaluations."""

    evaluations: int = Field(
        ge=1,
        description="it ends when so many proposals came to a Program with a price, new or known; the strategies "
        "that it begins with and all that is tried under other labels count too",
    )


def may_begin(candidate: Candidate, standing: Standing) -> bool:
    """Return whether steps may be drawn at a candidate: no labels, and lossy only if lossy ones may win."""
    return not has_labels(candidate.program) and (standing.lossy or not candidate.lossy)


@dataclass(slots=True)
class Untried:
    """The structural rule steps not drawn yet at candidates. A step tried twice is a sure duplicate."""

    random: np.random.Generator
    _left: dict[str, list[Step]] = field(default_factory=dict)  # Program digest -> steps in random order

    def step_at(self, candidate: Candidate, standing: Standing) -> Step | None:
        """Return one of them, drawn at random; None if none is left."""
        program = candidate.program
        if program.digest not in self._left:
            steps = list(structural_steps(program, lossy=standing.lossy))
            self._left[program.digest] = [steps[i] for i in self.random.permutation(len(steps))]
        left = self._left[program.digest]
        return left.pop() if left else None
