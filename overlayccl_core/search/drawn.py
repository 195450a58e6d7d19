"""What proposers share that draw rule steps: how many evaluations they have, and the steps that are left.

Only Programs without labels are begun with: other labels are for the loop.
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
    """A search whose proposer draws, and ends after a number of evaluations."""

    evaluations: int = Field(
        ge=1,
        description="it ends when so many proposals came to a Program with a price, new or known; the strategies "
        "that it begins with and all that is tried under other labels count too",
    )


def may_begin(candidate: Candidate, standing: Standing) -> bool:
    """Whether rule steps may be drawn at a candidate: it has no labels, and no fewer bits than may win."""
    return not has_labels(candidate.program) and (standing.lossy or not candidate.lossy)


@dataclass(slots=True)
class Untried:
    """The structural rule steps at candidates that were not drawn yet. A step tried twice is a sure duplicate."""

    random: np.random.Generator
    _left: dict[str, list[Step]] = field(default_factory=dict)  # program -> in the order in which they go

    def step_at(self, candidate: Candidate, standing: Standing) -> Step | None:
        """One of them, drawn at random; None where all were."""
        program = candidate.program
        if program.digest not in self._left:
            steps = list(structural_steps(program, lossy=standing.lossy))
            self._left[program.digest] = [steps[i] for i in self.random.permutation(len(steps))]
        left = self._left[program.digest]
        return left.pop() if left else None
