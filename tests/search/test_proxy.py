"""Large Cases: the tiers stay, and what a small Case shows holds at the large one."""

import itertools
from dataclasses import replace

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.searches import Proxy
from overlayccl_core.costmodel.features import features
from overlayccl_core.deployments.capabilities import Capabilities, Pattern, permute_shapes
from overlayccl_core.program.case import Case
from overlayccl_core.search.candidate import Stage
from overlayccl_core.search.loop import SearchStop
from overlayccl_core.search.proposers.offline import Offline
from overlayccl_core.search.proxy import capabilities_as, is_large, pricing_as, with_sizes
from tests.capabilities import call, tried, tried_permute
from tests.known_cases import case
from tests.search.costs import (
    OFFLINE,
    archive_of,
    at_random,
    bases_of,
    found_at,
    plain,
    pricing_of,
    seeker_of,
    theta_of,
)

M4_L4 = {"microbatches": 4, "layers": 4, "shape": [1, 8, 128]}


def large() -> Case:
    """Sums over 4 nodes of 8 ranks."""
    return case("tp_mlp", M4_L4, ranks=32, ranks_per_node=8)


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
    small = catalog.proxy(large())
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
    assert is_large(replace(large(), ranks=64, ranks_per_node=8), 10, limits)
    assert is_large(large(), 501, limits)
    assert not is_large(large(), 500, limits)


def test_a_small_program_is_held_to_what_the_library_can_do_at_the_large_case() -> None:
    of = large()
    small = catalog.proxy(of)
    assert small is not None
    refused = {"supported": False, "evidence": "refused"}
    library = [tried("all_to_all", 32, **refused), tried("all_gather", 4, stride=8, **refused)]
    can = capabilities_as(small, of, Capabilities(library))
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
    of = large()
    small = catalog.proxy(of)
    assert small is not None
    library = Capabilities([tried_permute(permute_shapes(of.ranks)[pattern])])
    can = capabilities_as(small, of, library)
    asked = permute_shapes(small.ranks).items()
    assert [p for p, shape in asked if can.supports(call("collective_permute", shape)).supported] == [pattern]
    assert not any(can.supports(call("all_gather", shape)).supported for _, shape in asked)
