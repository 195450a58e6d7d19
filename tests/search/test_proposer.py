"""What a proposer sees, and what becomes of what it proposes: nothing of it has to be trusted."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.searches import Search
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Candidate, Origin
from overlayccl_core.search.loop import SearchResult, SearchStop
from overlayccl_core.search.proposal import Proposal, ProposalOutcome, Rewrite, Sketch
from overlayccl_core.search.proposer import Proposer, SearchBudget, Standing, plug_in
from tests.known_cases import case
from tests.search.costs import OFFLINE, archive_of, bases_of, found_at, plain, pricing_of

pytestmark = pytest.mark.usefixtures("forked")
PROBLEM = catalog.build(case("grad_ar"))
MERGE = ("merge", "all_reduce:world:1", "all")
SOURCE = """
from overlayccl_core.program.language import (
    all_gather, all_reduce, concat, not_applicable, reshape, scale, slice_axis, split,
)

def backwards(io, p):
    _averaged(io, p, 1)

def summed(io, p):
    _averaged(io, p, p.world_size)

def never(io, p):
    not_applicable("not of these sizes")

def exchanged(io, p):
    everything = reshape(all_gather(io.read("d_received")), (p.world_size, p.world_size, -1))
    io.write("d_send", reshape(slice_axis(everything, 1, range(p.world_size), 1), (-1, p.width)))

def _averaged(io, p, times):
    tensors = [i for i in range(len(p.sizes) - 1, -1, -1)]
    total = all_reduce(concat([io.read("gradient", i) for i in tensors]))
    means = split(scale(total, times, p.world_size), [p.sizes[i] for i in tensors])
    for i, mean in zip(tensors, means):
        io.write("mean", i, mean)
"""


def sketch(function: str) -> Sketch:
    return Sketch(function=function, source=SOURCE, rationale="why not")


def entered(problem: Problem = PROBLEM, **judge: object) -> Archive:
    """An archive of the developer's Program."""
    archive = archive_of(problem, pricing_of(plain), **judge)
    archive.enter(bases_of(problem, only_developer=True))
    return archive


def said(archive: Archive, proposal: Proposal) -> tuple[ProposalOutcome, Candidate | None]:
    """(what became of a proposal, what it came to)."""
    before = len(archive.attempts)
    candidate = archive.take(proposal)
    return archive.attempts[before].outcome, candidate


def test_a_sketch_that_is_right_is_a_candidate_that_rules_may_begin_with() -> None:
    archive = entered()
    outcome, candidate = said(archive, sketch("backwards"))
    assert outcome is ProposalOutcome.PROGRAM and candidate is not None
    assert (candidate.origin, candidate.parent) == (Origin.SKETCH, None)
    assert candidate.recipe == sketch("backwards").recipe
    ring = Rewrite(at=candidate, steps=(("reduce_scatter_all_gather", MERGE[1], ""),))
    outcome, below = said(archive, ring)
    assert outcome is ProposalOutcome.PROGRAM and below is not None
    assert (below.recipe.base, below.parent) == (candidate.recipe.base, candidate.program.value_digest)


@pytest.mark.parametrize(
    ("function", "outcome", "message"),
    [
        ("summed", ProposalOutcome.NOT_PROVEN, "expected 1/4 gradient"),
        ("never", ProposalOutcome.DOES_NOT_APPLY, "not of these sizes"),
        ("missing", ProposalOutcome.REJECTED, "backwards, summed, never"),
        ("exchanged", ProposalOutcome.REJECTED, "d_received"),
    ],
)
def test_a_sketch_that_is_no_right_program_is_told_why_and_kept_out(
    function: str, outcome: ProposalOutcome, message: str
) -> None:
    archive = entered()
    before = list(archive.candidates)
    assert said(archive, sketch(function)) == (outcome, None)
    assert message in archive.attempts[-1].message
    assert archive.attempts[-1].sketch == sketch(function)
    assert archive.candidates == before


def test_what_cannot_run_here_is_proven_all_the_same() -> None:
    nothing = Capabilities([])
    archive = entered(capabilities=nothing)
    assert said(archive, sketch("summed")) == (ProposalOutcome.NOT_PROVEN, None)
    outcome, candidate = said(archive, sketch("backwards"))
    assert outcome is ProposalOutcome.INFEASIBLE and candidate is not None
    assert candidate.program.digest not in archive.prover.verdicts  # it may not be taken for one that may run


def test_what_was_sketched_before_is_a_duplicate() -> None:
    archive = entered()
    _, candidate = said(archive, sketch("backwards"))
    other = replace(sketch("backwards"), source=SOURCE + "\n")
    assert said(archive, other) == (ProposalOutcome.DUPLICATE, candidate)
    said(archive, sketch("summed"))
    assert said(archive, sketch("summed")) == (ProposalOutcome.DUPLICATE, None)


def test_a_backward_is_sketched_with_its_own_ports() -> None:
    _, backward = catalog.directions(case("uniform_a2a"))
    archive = entered(backward)
    outcome, candidate = said(archive, sketch("exchanged"))
    assert outcome is ProposalOutcome.PROGRAM and candidate is not None
    assert candidate.program.problem is backward


def test_a_rule_that_there_is_not_is_told_and_ends_nothing() -> None:
    archive = entered()
    wrong = Rewrite(at=archive.candidates[0], steps=(("mergee", MERGE[1], "all"),), rationale="a guess")
    assert said(archive, wrong) == (ProposalOutcome.REJECTED, None)
    assert "did you mean 'merge'" in archive.attempts[-1].message
    assert archive.attempts[-1].rationale == "a guess"


class Script:
    """A proposer that says one list of proposals a round, and notes how the search stood."""

    def __init__(self, *rounds: list[Proposal]) -> None:
        self.rounds = list(rounds)
        self.budgets: list[SearchBudget] = []
        self.heard: list[ProposalOutcome] = []
        self.standing: Standing | None = None

    def propose(self, standing: Standing) -> Iterator[Proposal] | None:
        self.budgets.append(standing.budget)
        self.standing = standing
        return self._said(self.rounds.pop(0), standing) if self.rounds else None

    def _said(self, proposals: list[Proposal], standing: Standing) -> Iterator[Proposal]:
        for proposal in proposals:
            yield proposal
            self.heard.append(next(a.outcome for a in reversed(standing.attempts) if a.sketch == proposal))


def run(script: Proposer, search: Search = OFFLINE) -> SearchResult:
    """A search from developer alone, a second old."""
    return found_at(PROBLEM, plain, script, search=search, clock=lambda: 1.0)


def test_a_proposer_hears_what_became_of_a_proposal_before_it_makes_the_next() -> None:
    script = Script([sketch("summed"), sketch("backwards")], [sketch("backwards")])
    result = run(script)
    assert script.heard == [
        *(ProposalOutcome.NOT_PROVEN, ProposalOutcome.PROGRAM),
        ProposalOutcome.DUPLICATE,
    ]
    assert (result.explored.stop, result.explored.rounds) == (SearchStop.NO_NEW_ELITE, 2)


def test_a_proposer_sees_elites_prices_and_what_is_left() -> None:
    script = Script([sketch("backwards")], [])
    assert run(script).best is not None
    standing = script.standing
    assert standing is not None
    assert standing.problem.case == PROBLEM.case
    attempt = next(a for a in standing.attempts if a.sketch)
    candidate = standing.candidate_of(attempt)
    assert candidate is not None and candidate.price.us is not None
    assert standing.elites[0] is candidate and standing.is_elite(candidate)
    developer = next(c for c in standing.archive.candidates if c.origin is Origin.DEVELOPER)
    assert not standing.is_elite(developer)
    priced = len(standing.archive.candidates)
    first, *_, last = script.budgets
    assert (first.rounds, last.rounds) == (OFFLINE.rounds, OFFLINE.rounds - 2)
    assert (last.programs, last.seconds) <= (OFFLINE.programs - 2, OFFLINE.seconds - 1)
    assert first.programs - last.programs >= 1 and priced > 2


@pytest.mark.parametrize(
    ("search", "stop"),
    [
        (OFFLINE.changed(rounds=1), SearchStop.ROUNDS),
        (OFFLINE.changed(programs=2), SearchStop.PROGRAMS),
        (OFFLINE.changed(seconds=0.5), SearchStop.SECONDS),
    ],
)
def test_a_guard_cuts_any_proposer(search: Search, stop: SearchStop) -> None:
    result = run(Script([sketch("backwards")], [sketch("summed")]), search)
    assert (result.explored.stop, result.explored.rounds) == (stop, 1)


def test_an_unknown_proposer_is_told_which_there_are() -> None:
    assert plug_in("offline").proposer(OFFLINE) is not plug_in("offline").proposer(OFFLINE)
    with pytest.raises(ValueError, match=r"There are: .*offline"):
        plug_in("oracle")
