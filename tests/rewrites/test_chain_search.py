"""Chains that are searched from the developer's Program: which known ways they reach, by which factors."""

from functools import cache

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.program.problem import Problem
from overlayccl_core.rewrites.chains import ChainLink, chain, chained
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import Factor, rule, rule_names
from tests.known_cases import case

ENTRIES = {
    "tp_mlp": {"microbatches": 2, "layers": 2, "shape": [1, 4, 4]},
    "grad_ar": {"sizes": [mib * MIB // 4 for mib in (1, 3, 12, 9, 20, 5)]},
    "fsdp_prefetch": {"microbatches": 2, "layers": 3, "shape": [8, 6]},
}
# Known ways and the factors of their chains, by first letters.
REACHED = {
    "tp_mlp": {
        "developer": "",
        "single_graph": "BS",
        "merged_over_microbatches": "BM",
        "coalesced": "BM",
        "reduce_scatter_all_gather": "BMP",
        "all_to_all_sum": "BMPP",
        "gather_and_sum": "BMP",
        "all_to_all_of_copies": "BMPP",
        "bf16_on_the_wire": "BMD",
    },
    "grad_ar": {  # the developer's are torch's buckets
        "ddp_1_then_25_mib": "",
        "reduce_back_to_back": "MS",
        "flat": "MM",
        "one_by_one": "M",
        "ddp_1_mib": "MS",
        "buckets_32_mib": "MMS",
        "coalesced": "M",
        "all_to_all_sum": "MMPP",
    },
    "fsdp_prefetch": {
        "prefetched": "",
        "in_lockstep": "BS",
        "gathered_once": "BS",
        "one_by_one": "S",
        "merged_under_256_mib": "MB",
        "all_to_all_of_copies": "BPS",
        "permute_ring": "PBBBS",
    },
}
ALL = [(name, way) for name, ways in REACHED.items() for way in ways]


def problem_of(name: str) -> Problem:
    return catalog.build(case(name, ENTRIES[name], ranks_per_node=4))


@cache
def found(name: str, way: str) -> tuple[ChainLink, ...]:
    problem = problem_of(name)
    return chain(catalog.developer_program(problem), Recipe(base=way), replay)


def letters(links: tuple[ChainLink, ...]) -> str:
    return "".join(link.factor.value[0].upper() for link in links)


@pytest.mark.parametrize(("name", "way"), ALL)
def test_a_chain_meets_the_known_way_event_for_event(name: str, way: str) -> None:
    problem, links = problem_of(name), found(name, way)
    assert letters(links) == REACHED[name][way]
    made = chained(catalog.developer_program(problem), links, replay)
    assert made.program.digest == replay(Recipe(base=way), problem).digest
    assert made.links == links and not made.left_out


@pytest.mark.parametrize(("name", "way"), [one for one in ALL if len(REACHED[one[0]][one[1]]) > 1])
def test_any_part_of_a_chain_is_legal_and_proven(name: str, way: str) -> None:
    problem, links = problem_of(name), found(name, way)
    developer, reference = catalog.developer_program(problem), catalog.reference_program(problem)
    for factor in {link.factor for link in links}:
        made = chained(developer, [link for link in links if link.factor is factor], replay)
        assert legality.check(made.program).passed
        assert equivalence.prove(made.program, reference).passed
        assert len(made.links) + len(made.left_out) == sum(link.factor is factor for link in links)


def test_a_step_that_needs_another_factor_is_left_out_and_says_why() -> None:
    (boundary, merge) = found("tp_mlp", "merged_over_microbatches")
    developer = catalog.developer_program(problem_of("tp_mlp"))
    alone = chained(developer, [merge], replay)
    assert alone.program is developer and "side conditions" in alone.left_out[0]
    assert chained(developer, [boundary], replay).links == (boundary,)


def test_a_recipes_own_steps_follow_the_chain_to_its_beginning() -> None:
    problem = problem_of("tp_mlp")
    early = ("early_issue", "reduce_scatter:world:1", "")
    recipe = Recipe(base="reduce_scatter_all_gather", steps=(early,))
    links = chain(catalog.developer_program(problem), recipe, replay)
    assert letters(links) == "BMPS" and links[-1].step == early
    made = chained(catalog.developer_program(problem), links, replay)
    assert made.program.digest == replay(recipe, problem).digest


def test_a_chain_may_meet_a_recipe_behind_its_beginning() -> None:
    recipe = Recipe(base="ring_in_chunks", steps=(("all_reduce_of_parts", "all_gather:world:2", ""),))
    problem = problem_of("tp_mlp")
    with pytest.raises(ValueError, match="all_reduce_of_parts"):  # it does not replay here
        chain(catalog.developer_program(problem), recipe, replay)
    recipe = Recipe(
        base="reduce_scatter_all_gather", steps=(("all_reduce_of_parts", "all_gather:world:2", ""),)
    )
    assert letters(chain(catalog.developer_program(problem), recipe, replay)) == "BM"


def test_a_known_way_that_no_chain_reaches_is_one_link_as_a_whole() -> None:
    problem = problem_of("tp_mlp")
    (whole,) = chain(catalog.developer_program(problem), Recipe(base="ring_in_chunks"), replay, programs=5)
    assert (
        whole.factor is Factor.PRIMITIVE
        and whole.step is None
        and whole.words.startswith("ring_in_chunks as a whole")
    )
    assert chained(catalog.developer_program(problem), [whole], replay).program.digest == (
        replay(Recipe(base="ring_in_chunks"), problem).digest
    )


def test_only_a_cut_between_graphs_is_a_boundary_and_another_order_a_schedule() -> None:
    problem = catalog.build(case("tp_mlp", ENTRIES["tp_mlp"] | {"microbatches": 1}, ranks_per_node=4))
    (cut,) = chain(catalog.developer_program(problem), Recipe(base="single_graph"), replay)
    assert cut.order and cut.factor is Factor.BOUNDARY
    (order,) = found("fsdp_prefetch", "one_by_one")
    assert order.order and order.factor is Factor.SCHEDULE


def test_an_order_of_other_values_is_left_out() -> None:
    *_, order = found("tp_mlp", "single_graph")
    problem = problem_of("tp_mlp")
    other = replay(Recipe(base="gather_and_sum"), problem)
    assert "other values are exchanged" in chained(other, [order], replay).left_out[0]


def test_every_rule_names_its_factor() -> None:
    of = {name: rule(name).FACTOR for name in rule_names()}
    assert set(of.values()) == set(Factor)
    assert {name for name, factor in of.items() if factor is Factor.SCHEDULE} == {"early_issue", "in_flight"}
