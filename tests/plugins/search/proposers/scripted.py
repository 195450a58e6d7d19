"""A proposer with a script, in the place of a model that writes strategies: it sketches, hears what came of it,
mends what was not right, turns a knob of what was, and leaves the rest to the rules.

It is for gradients that are averaged; at another Problem nothing of what it sketches traces.
"""

from collections.abc import Iterable, Iterator

from pydantic import Field

from overlayccl_core.search.candidate import Origin
from overlayccl_core.search.proposal import Proposal, ProposalOutcome, Rewrite, Sketch
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.proposers.offline import Offline
from overlayccl_core.search.proposers.offline import Search as OfflineSearch

WORDS = "all_gather, concat, reduce_sum, reshape, scale, split"
HEAD = f"from overlayccl_core.program.language import {WORDS}\n"

BY_PARITY = f"""{HEAD}
def by_parity(io, p):
    _averaged(io, p, [i for i in p.tensor_order if i % 2 == 0], 1)
    _averaged(io, p, [i for i in p.tensor_order if i % 2 == 1], 1)

def unscaled(io, p):
    _averaged(io, p, [i for i in range(len(p.sizes) - 1, -1, -1)], p.world_size)

def _averaged(io, p, tensors, times):
    of_all = all_gather(concat([io.read("gradient", i) for i in tensors]))
    total = reduce_sum(reshape(of_all, (p.world_size, sum([p.sizes[i] for i in tensors]))), 0)
    means = split(scale(total, times, p.world_size), [p.sizes[i] for i in tensors])
    for i, mean in zip(tensors, means):
        io.write("mean", i, mean)
"""
AGAIN = BY_PARITY.replace("by_parity", "once_more")
NO_SYNTAX = f"{HEAD}\ndef by_parity(io, p:\n    pass\n"


def sketched(function: str, source: str, rationale: str = "scripted") -> Sketch:
    """One of its sketches."""
    return Sketch(function=function, source=source, rationale=rationale)


FIRST = (
    sketched("by_parity", BY_PARITY, "two buffers in flight"),
    sketched("by_parity", NO_SYNTAX),
    sketched("unscaled", BY_PARITY),
    sketched("once_more", AGAIN),
)


class Search(OfflineSearch):
    """A search by the script, then by the rules."""

    sketches: int = Field(default=len(FIRST), ge=0, description="how many are said in the first round")


class Scripted:
    """Sketches in the first round, answers in the second, then the rules."""

    def __init__(self, search: Search) -> None:
        self._round = 0
        self._first = FIRST[: search.sketches]
        self._rules = Offline(search)

    def propose(self, standing: Standing) -> Iterable[Proposal] | None:
        """What the script says next."""
        self._round += 1
        match self._round:
            case 1:
                return self._first
            case 2:
                return self._answers(standing)
            case _:
                return self._rules.propose(standing)

    def _answers(self, standing: Standing) -> Iterator[Proposal]:
        for attempt in standing.attempts:
            if attempt.origin is Origin.SKETCH and attempt.outcome is ProposalOutcome.NOT_PROVEN:
                mended = BY_PARITY.replace("-1)], p.world_size)", "-1)], 1)")
                yield sketched("unscaled", mended, f"mends: {attempt.message}")
            candidate = standing.candidate_of(attempt)
            if attempt.outcome is ProposalOutcome.PROGRAM and attempt.sketch in self._first and candidate:
                merge = ("merge", "all_gather:world:1", "all")
                yield Rewrite(at=candidate, steps=(merge,), rationale="one call for both")
        yield Rewrite(at=standing.elites[0], steps=(("no_such_rule", "all_gather:world:1", ""),))


def proposer(search: Search) -> Scripted:
    """A new one for each Case and direction."""
    return Scripted(search)
