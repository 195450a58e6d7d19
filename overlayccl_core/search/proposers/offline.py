"""The offline proposer: every rewrite rule at every site class of every new elite. Free and deterministic.

Other proposers may hold one and pass on its proposals: the rules then polish their finds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from overlayccl_core.configuration import searches
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.labels import has_labels
from overlayccl_core.search.proposal import Rewrite
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.rules import structural_steps


class Search(searches.Search):
    """A search by the rules."""

    elites_a_round: int = Field(
        ge=1, description="how many new elites are expanded before prices are looked at again"
    )
    settled: int = Field(
        ge=1,
        description="rounds in a row that leave so many cheapest elites as they are, after which it ends",
    )


@dataclass(slots=True)
class Offline:
    """Expand each elite once, the cheapest first. Only Programs without labels are expanded; the loop tries labels.

    It ends when all are expanded, or when the cheapest stay the same: several collectives with several forms each
    give as many families as combinations, nearly all of them dear.
    """

    search: Search
    _expanded: set[str] = field(default_factory=set)
    _cheapest: tuple[str, ...] = ()
    _unchanged: int = 0  # rounds

    def propose(self, standing: Standing) -> Iterator[Rewrite] | None:
        """Return the steps at the cheapest elites not expanded yet; None at the end."""
        many = self.search.elites_a_round
        elites = [c for c in standing.elites if standing.lossy or not c.lossy]
        cheapest = tuple(c.program.digest for c in elites[:many])
        self._unchanged = self._unchanged + 1 if cheapest == self._cheapest else 0
        self._cheapest = cheapest
        new = [c for c in elites if self._is_new(c)]
        ends = not new or self._unchanged >= self.search.settled
        return None if ends else self._steps(new[:many], standing)

    def _is_new(self, candidate: Candidate) -> bool:
        return candidate.program.digest not in self._expanded and not has_labels(candidate.program)

    def _steps(self, candidates: Sequence[Candidate], standing: Standing) -> Iterator[Rewrite]:
        for candidate in candidates:
            if not standing.is_elite(candidate):
                continue  # a cheaper one came in this round
            self._expanded.add(candidate.program.digest)
            for step in structural_steps(candidate.program, lossy=standing.lossy):
                yield Rewrite(at=candidate, steps=(step,))


def proposer(search: Search) -> Offline:
    """Return a new proposer for a Case and direction."""
    return Offline(search)
