"""Names of site classes: the same at every size."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.groups import contiguous, groups_of, strided, world
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.rewrites.classes import group_name, site_classes, tiers
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case


def classes_of(problem: str, strategy: str, **at: int) -> dict[str, int]:
    program = replay(Recipe(base=strategy), catalog.build(case(problem, **at)))  # type: ignore[arg-type]
    return {name: len(sites) for name, sites in site_classes(program, COLLECTIVES).items()}


@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(4, 2), (6, 3), (6, 2), (224, 32)])
def test_classes_are_the_same_at_every_number_of_ranks(ranks: int, ranks_per_node: int) -> None:
    at = {"ranks": ranks, "ranks_per_node": ranks_per_node}
    assert list(classes_of("tp_mlp", "hierarchical", **at)) == [
        "reduce_scatter:node:1",
        "all_reduce:across:2",
        "all_gather:node:3",
    ]


def test_all_layers_and_microbatches_are_one_class() -> None:
    assert classes_of("tp_mlp", "developer") == {"all_reduce:world:1": 6}


def test_permutes_have_partners_and_no_groups() -> None:
    assert classes_of("uniform_a2a", "permute_ring", ranks=5) == {"collective_permute:other:1": 4}


def test_kinds_that_are_not_asked_for_are_left_out() -> None:
    program = replay(Recipe(base="gather_reduce_scatter"), catalog.build(case("uniform_a2a")))
    assert list(site_classes(program, (Kind.REDUCE_SCATTER,))) == ["reduce_scatter:world:2"]


def test_names_of_groups() -> None:
    two_tiers = case("grad_ar", ranks=6, ranks_per_node=3)
    assert tiers(two_tiers) == (contiguous(6, 3), strided(6, 3))
    assert group_name(two_tiers, world(6)) == "world"
    assert group_name(two_tiers, contiguous(6, 3)) == "node"
    assert group_name(two_tiers, strided(6, 3)) == "across"
    assert group_name(two_tiers, contiguous(6, 2)) == "other"
    assert group_name(two_tiers, groups_of([[1, 0, 2, 3, 4, 5]], 6)) == "other"


@pytest.mark.parametrize("ranks_per_node", [1, 4])
def test_one_tier_has_no_nodes(ranks_per_node: int) -> None:
    one_tier = case("grad_ar", ranks_per_node=ranks_per_node)
    assert tiers(one_tier) is None
    assert group_name(one_tier, contiguous(4, 2)) == "other"
    assert group_name(one_tier, world(4)) == "world"
