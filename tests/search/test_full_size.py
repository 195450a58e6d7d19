"""The second half of a search through a proxy: what is replayed, what is expanded, and what is not."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from overlayccl_core import catalog
from overlayccl_core.deployments.capabilities import Capabilities, permute_shapes
from overlayccl_core.program.kinds import FLOATS
from overlayccl_core.rewrites.recipe import replay, sources
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Stage
from overlayccl_core.search.full_size import DEARER, FullSize
from overlayccl_core.search.judge import Judge
from overlayccl_core.search.loop import SearchStop, Seeker
from overlayccl_core.search.proposal import ProposalOutcome, Sketch
from overlayccl_core.search.proposers.offline import Offline
from overlayccl_core.search.proxy import capabilities_as, pricing_as
from overlayccl_core.search.rules import structural_steps
from tests.capabilities import tried
from tests.known_cases import case
from tests.search.costs import (
    OFFLINE,
    archive_of,
    bases_of,
    favouring,
    found_at,
    plain,
    pricing_of,
    prover_of,
    theta_of,
)

pytestmark = pytest.mark.usefixtures("forked")
M4_L4 = {"microbatches": 4, "layers": 4, "shape": [1, 8, 128]}
LARGE = case("tp_mlp", M4_L4, ranks=32, ranks_per_node=8)
CALLS = ("all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")


def without(operation: str) -> Capabilities:
    """A library that cannot do one thing."""
    groups = list(itertools.product((2, 4, 8, 16, 32), (1, 2, 4, 8)))
    return Capabilities(
        tried(name, size, stride=stride, dtype=dtype, supported=name != operation)
        for name in CALLS
        for size, stride in (permute_shapes(32).values() if name == "collective_permute" else groups)
        for dtype in FLOATS
    )


CAN = without("collective_permute")
COST = favouring("reduce_scatter")


@cache
def small() -> Archive:
    """A small Case that was searched; what tests try there besides adds nothing that another would miss."""
    case_ = catalog.proxy(LARGE)
    assert case_ is not None
    at_small = catalog.build(case_)
    theta = theta_of((c.program for c in full().candidates), COST)
    proxy = Archive(
        judge=Judge(pricing=pricing_as(case_, LARGE, theta), capabilities=capabilities_as(case_, LARGE, CAN)),
        prover=prover_of(at_small),
        stage=Stage.PROXY,
    )
    seeker = Seeker(search=OFFLINE, archive=proxy, bases=bases_of(at_small), clock=lambda: 0.0)
    assert seeker.explore(Offline(OFFLINE)).stop is SearchStop.NO_NEW_ELITE
    return proxy


def full(can: Capabilities | None = None) -> Archive:
    """The large Case, into which its bases are entered."""
    problem = catalog.build(LARGE)
    archive = Archive(judge=Judge(pricing=pricing_of(COST), capabilities=can), prover=prover_of(problem))
    archive.enter(bases_of(problem))
    return archive


def explored(families: int, has_time: Callable[[], bool] = lambda: True) -> FullSize:
    return FullSize(small=small(), full=full(CAN), families=families, has_time=has_time)


def test_what_the_library_cannot_do_at_the_large_case_is_not_replayed() -> None:
    at = explored(families=1000)
    assert any("collective_permute" in c.family for c in at.small.candidates)
    assert at.replay_promising()
    assert not any("collective_permute" in c.family for c in at.full.candidates)
    assert len(at.full.candidates) > len(bases_of(catalog.build(LARGE)))


def test_so_many_families_are_replayed_and_more_only_while_they_may_be_the_cheapest() -> None:
    few, all_ = explored(2), explored(1000)
    assert few.replay_promising() and all_.replay_promising()
    assert len(few.full.elites) < len(all_.full.elites)
    assert few.full.cheapest()[0].us == all_.full.cheapest()[0].us


def test_what_a_step_makes_dear_or_impossible_at_the_small_case_is_not_tried_at_the_large_one() -> None:
    at = explored(families=4)
    assert at.replay_promising()
    winner = at.full.cheapest()[0]
    before, steps = len(at.full.candidates), list(structural_steps(winner.program, lossy=False))
    assert at.expand(winner, steps)
    twin = at.small.of_recipe(winner.recipe)
    assert twin is not None
    there = {step: at.small.try_step(twin, step) for step in steps}
    skipped = {s for s, c in there.items() if c and (not c.feasible or c.us > DEARER * twin.us)}
    tried = {a.steps[-1] for a in at.full.attempts if a.parent == winner.program.value_digest}
    assert skipped and skipped.isdisjoint(tried)
    assert set(steps) - skipped <= tried
    assert len(at.full.candidates) > before


def test_a_search_through_a_proxy_that_runs_out_of_time_says_so() -> None:
    at = explored(families=1000, has_time=lambda: False)
    before = len(at.full.candidates)
    assert not at.replay_promising()
    assert not at.expand(at.full.cheapest()[0], structural_steps(at.full.cheapest()[0].program, lossy=False))
    assert len(at.full.candidates) == before
    problem, at_small = catalog.build(LARGE), small().prover.reference.problem
    proxy = archive_of(at_small, pricing_of(plain)), bases_of(at_small)
    result = found_at(problem, plain, proxy=proxy, clock=lambda: OFFLINE.seconds + 1)
    assert result.explored.stop is SearchStop.SECONDS


HALVES = """
from overlayccl_core.program.language import all_reduce, concat, scale, split

def in_halves(io, p):
    half = len(p.sizes) // 2
    _averaged(io, p, [i for i in range(half)])
    _averaged(io, p, [i for i in range(half, len(p.sizes))])

def of_eight(io, p):
    _averaged(io, p, [0, 2, 4, 6])
    _averaged(io, p, [1, 3, 5, 7])

def _averaged(io, p, tensors):
    total = all_reduce(concat([io.read("gradient", i) for i in tensors]))
    means = split(scale(total, 1, p.world_size), [p.sizes[i] for i in tensors])
    for i, mean in zip(tensors, means):
        io.write("mean", i, mean)
"""


def test_what_begins_at_a_source_is_traced_and_proven_anew_at_the_large_case() -> None:
    problem = catalog.build(case("grad_ar", {"sizes": list(range(3, 15))}))
    archive = archive_of(problem, pricing_of(plain))
    archive.enter(bases_of(problem, only_developer=True))
    general, small_only = (
        Sketch(function=name, source=HALVES, rationale="") for name in ("in_halves", "of_eight")
    )
    none = archive_of(problem, pricing_of(plain))
    replayed = FullSize(
        small=none, full=archive, families=1, has_time=lambda: True, sketches=[general, small_only]
    )
    steps = (("merge", "all_reduce:world:1", "all"), ("reduce_scatter_all_gather", "all_reduce:world:1", ""))
    candidate = replayed.follow(replace(general.recipe, steps=steps))
    assert candidate is not None
    assert candidate.recipe == replace(general.recipe, steps=steps)
    assert replay(candidate.recipe, problem, sources([HALVES])).digest == candidate.program.digest
    assert replayed.follow(replace(small_only.recipe, steps=steps)) is None
    attempt = next(a for a in archive.attempts if a.sketch == small_only)
    assert (attempt.outcome, attempt.stage) == (ProposalOutcome.REJECTED, Stage.FULL)
    assert sum(a.sketch is not None for a in archive.attempts) == 2
