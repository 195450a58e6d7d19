"""Large Cases: the tiers stay, what a small Case shows holds at the large one, and what is replayed, what not."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.searches import Proxy
from overlayccl_core.costmodel.features import features
from overlayccl_core.deployments.capabilities import Capabilities, Pattern, permute_shapes
from overlayccl_core.program.kinds import FLOATS
from overlayccl_core.rewrites.recipe import replay, sources
from overlayccl_core.search.archive import Archive
from overlayccl_core.search.candidate import Stage
from overlayccl_core.search.judge import Judge
from overlayccl_core.search.loop import SearchStop, Seeker
from overlayccl_core.search.proposal import ProposalOutcome, Sketch
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.proposers.offline import Offline
from overlayccl_core.search.proxy import DEARER, FullSize, capabilities_as, is_large, pricing_as, with_sizes
from overlayccl_core.search.rules import structural_steps
from tests.capabilities import call, tried, tried_permute
from tests.known_cases import case
from tests.search.costs import (
    OFFLINE,
    archive_of,
    at_random,
    bases_of,
    favouring,
    found_at,
    plain,
    pricing_of,
    prover_of,
    seeker_of,
    theta_of,
)

pytestmark = pytest.mark.usefixtures("forked")
M4_L4 = {"microbatches": 4, "layers": 4, "shape": [1, 8, 128]}
LARGE = case("tp_mlp", M4_L4, ranks=32, ranks_per_node=8)


def test_proxy_then_replay_ends_where_a_search_at_full_size_does() -> None:
    cost = at_random(3)
    of = case("tp_mlp", M4_L4, ranks=16)
    problem, small = catalog.build(of), catalog.proxy(of)
    assert small is not None
    seeker = seeker_of(problem, pricing_of(cost))
    assert seeker.explore(Offline(OFFLINE)).stop is SearchStop.NO_NEW_ELITE
    full = seeker.archive
    theta = theta_of((c.program for c in full.candidates), cost)
    at_small = catalog.build(small)
    proxy = archive_of(at_small, pricing_as(small, of, theta), stage=Stage.PROXY), bases_of(at_small)[:1]
    replayed = found_at(problem, cost, search=OFFLINE.changed(random=0), proxy=proxy)
    best = full.cheapest()[0].price.us
    assert best is not None
    assert replayed.best is not None and replayed.best.price.us is not None
    assert replayed.best.price.us <= best * 1.01
    assert {s.stage for s in replayed.attempts} == {Stage.PROXY, Stage.FULL}
    assert {c.program.problem.case for c in replayed.candidates} == {of}


@pytest.mark.parametrize(
    ("problem", "entry"),
    [
        ("tp_mlp", {"microbatches": 16, "layers": 16, "shape": [1, 8, 128], "site": "entry"}),
        ("uniform_a2a", {"chunk": 3, "width": 5}),
        ("grad_ar", {"sizes": list(range(1, 301)), "overlap": True}),
    ],
)
def test_a_proxy_keeps_tiers_shapes_and_fields(problem: str, entry: dict[str, object]) -> None:
    of = case(problem, entry, ranks=224, ranks_per_node=32)
    small = catalog.proxy(of)
    assert small is not None
    assert (small.ranks, small.ranks_per_node) == (8, 4)
    assert catalog.proxy(small) is None
    kept = {"site", "shape", "chunk", "width", "overlap"} & dict(of.parameters).keys()
    assert kept and all(small[name] == of[name] for name in kept)
    if problem == "grad_ar":
        assert set(small["sizes"]) < set(of["sizes"]) and len(small["sizes"]) == 8
    one_tier = catalog.proxy(case(problem, entry, ranks=224))
    assert one_tier is not None and (one_tier.ranks, one_tier.ranks_per_node) == (4, 4)


def test_features_are_taken_for_those_of_larger_groups() -> None:
    small = catalog.proxy(LARGE)
    assert small is not None
    hierarchical = next(b for b in bases_of(catalog.build(small)) if b.recipe.base == "hierarchical")
    sizes = {("network", 8): 32, ("network", 2): 4, ("node", 4): 8}
    reaches = {c.name.split(".")[1] for c in with_sizes(features(hierarchical.program), sizes)}
    assert {"node8", "network4"} <= reaches and not {"node4", "network2"} & reaches


def test_a_small_program_is_priced_with_what_is_known_of_the_large_groups() -> None:
    of = case("tp_mlp", M4_L4, ranks=32)
    small = catalog.proxy(of)
    assert small is not None
    theta = theta_of((b.program for b in bases_of(catalog.build(of))), plain)
    for base in bases_of(catalog.build(small)):
        us = pricing_of(plain)(base.program).us
        assert pricing_as(small, of, theta)(base.program).us == pytest.approx(us)
    assert pricing_as(small, small, theta)(base.program).us is None


def test_large_is_many_nodes_or_many_ranks() -> None:
    limits = Proxy(nodes=500, ranks=64)
    assert is_large(replace(LARGE, ranks=64, ranks_per_node=8), 10, limits)
    assert is_large(LARGE, 501, limits)
    assert not is_large(LARGE, 500, limits)


def test_a_small_program_is_held_to_what_the_library_can_do_at_the_large_case() -> None:
    small = catalog.proxy(LARGE)
    assert small is not None
    refused = {"supported": False, "evidence": "refused"}
    library = [tried("all_to_all", 32, **refused), tried("all_gather", 4, stride=8, **refused)]
    can = capabilities_as(small, LARGE, Capabilities(library))
    asked = {
        (kind, shape): can.supports(call(kind, shape)).evidence
        for kind in ("all_to_all", "all_gather")
        for shape in itertools.product((2, 4, 8, 32), (1, 2, 4, 8))
    }
    assert {what for what, said in asked.items() if "refused" in said} == {
        ("all_to_all", (8, 1)),
        ("all_gather", (2, 4)),
    }


@pytest.mark.parametrize("pattern", Pattern)
def test_a_permute_of_a_small_program_is_what_it_is_at_the_large_case(pattern: Pattern) -> None:
    small = catalog.proxy(LARGE)
    assert small is not None
    library = Capabilities([tried_permute(permute_shapes(LARGE.ranks)[pattern])])
    can = capabilities_as(small, LARGE, library)
    asked = permute_shapes(small.ranks).items()
    assert [p for p, shape in asked if can.supports(call("collective_permute", shape)).supported] == [pattern]
    assert not any(can.supports(call("all_gather", shape)).supported for _, shape in asked)


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
def proxied() -> Archive:
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
    return FullSize(small=proxied(), full=full(CAN), families=families, has_time=has_time)


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
    problem, at_small = catalog.build(LARGE), proxied().prover.reference.problem
    proxy, asked = (archive_of(at_small, pricing_of(plain)), bases_of(at_small)), []

    class Nothing:
        """Proposes nothing, and takes all the time there is."""

        def propose(self, standing: Standing) -> None:
            asked.append(standing)

    def clock() -> float:
        return OFFLINE.seconds + 1 if asked else 0.0

    assert found_at(problem, plain, Nothing(), proxy=proxy, clock=clock).explored.stop is SearchStop.SECONDS


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
