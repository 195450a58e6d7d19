"""Recipes: JSON form, replay at any Case, and what is refused."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.apply import DoesNotApply, apply
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay, source_base, sources
from tests.known_cases import case

OWN = """
from overlayccl_core.program.language import all_reduce, scale

def in_halves(io, p):
    for i in p.tensor_order:
        io.write("mean", i, scale(all_reduce(scale(io.read("gradient", i), 1, 2), "sum"), 2, p.world_size))
"""


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(base="developer"),
        Recipe(base="developer", steps=(("merge", "all_reduce:world:1", "1/4"),)),
        Recipe(base=TransposeOf(recipe=Recipe(base="native"))),
        Recipe(base=source_base(OWN, "in_halves")),
    ],
)
def test_json_form_round_trips(recipe: Recipe) -> None:
    assert Recipe.from_json(recipe.to_json()) == recipe


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"base": 3, "steps": []},
        {"base": "developer"},
        {"base": "developer", "steps": [["merge"]]},
        {"base": {"transpose_of": 3}, "steps": []},
        {"base": {"transpose_of": {"base": "x", "steps": []}, "simplified": False}, "steps": []},
    ],
)
def test_what_is_no_recipe_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="recipe"):
        Recipe.from_json(data)


def test_a_known_way_replays_at_any_case() -> None:
    for ranks in (2, 5):
        problem = catalog.build(case("grad_ar", ranks=ranks))
        program = replay(Recipe(base="flat"), problem)
        assert program.digest == trace_source(catalog.library_source("grad_ar"), "flat", problem).digest


def test_a_known_way_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(Rejected, match=r"strategy 'flatt'.*flat"):
        replay(Recipe(base="flatt"), catalog.build(case("grad_ar")))


def test_a_source_replays_from_its_digest_and_only_from_its_own_content() -> None:
    problem, recipe = catalog.build(case("grad_ar")), Recipe(base=source_base(OWN, "in_halves"))
    assert len(replay(recipe, problem, lambda digest: OWN).collectives) == 4
    with pytest.raises(ValueError, match="other content"):
        replay(recipe, problem, lambda digest: OWN + "\n")
    with pytest.raises(ValueError, match="say where it is"):
        replay(recipe, problem)


def test_sources_are_found_by_their_digests_and_what_is_missing_is_named() -> None:
    problem, recipe = catalog.build(case("grad_ar")), Recipe(base=source_base(OWN, "in_halves"))
    by_hand = trace_source(OWN, "in_halves", problem)
    assert replay(recipe, problem, sources(["", OWN])).digest == by_hand.digest
    with pytest.raises(ValueError, match="is none of the 1 at hand"):
        replay(recipe, problem, sources([OWN + "\n"]))


def test_a_source_at_a_backward_is_written_for_its_ports() -> None:
    source = OWN.replace("in_halves", "back").partition("def ")[0] + (
        "def back(io, p):\n    io.write('d_send', all_to_all(io.read('d_received')))\n"
    )
    source = source.replace("all_reduce, scale", "all_to_all")
    forward, backward = catalog.directions(case("uniform_a2a"))
    recipe = Recipe(base=source_base(source, "back"))
    assert replay(recipe, backward, sources([source])).problem is backward
    with pytest.raises(Rejected, match="d_received"):
        replay(recipe, forward, sources([source]))


def test_steps_are_applied_in_turn_after_the_base() -> None:
    steps = (("drop_boundary", "all_reduce:world:1", ""), ("merge", "all_reduce:world:1", "all"))
    problem = catalog.build(case("tp_mlp"))
    one_by_one = apply(apply(replay(Recipe(base="developer"), problem), steps[0]), steps[1])
    assert replay(Recipe(base="developer", steps=steps), problem).digest == one_by_one.digest


def test_steps_on_a_transpose_come_after_transposing() -> None:
    recipe = Recipe(
        base=TransposeOf(recipe=Recipe(base="native")), steps=(("ring", "all_to_all:world:1", ""),)
    )
    _, backward = catalog.directions(case("uniform_a2a"))
    program = replay(recipe, backward)
    assert program.problem is backward
    assert len(program.collectives) == 3


def test_a_step_that_does_nothing_is_named_with_its_place_its_class_and_what_there_is() -> None:
    steps = (("merge", "all_reduce:world:1", "all"), ("merge", "all_gather:node:2", "all"))
    with pytest.raises(
        DoesNotApply, match=r"step 2 of 2 at grad_ar/.*all_gather:node:2 .*is all_reduce:world:1"
    ):
        replay(Recipe(base="one_by_one", steps=steps), catalog.build(case("grad_ar")))


def test_a_rule_that_there_is_not_is_named_with_those_that_are() -> None:
    recipe = Recipe(base="one_by_one", steps=(("mergee", "all_reduce:world:1", "all"),))
    with pytest.raises(ValueError, match=r"no 'mergee'.*'merge'"):
        replay(recipe, catalog.build(case("grad_ar")))


def test_a_transpose_replays_at_the_backward_only() -> None:
    recipe = Recipe(base=TransposeOf(recipe=Recipe(base="native")))
    forward, backward = catalog.directions(case("uniform_a2a"))
    assert replay(recipe, backward).problem.direction is Direction.BACKWARD
    with pytest.raises(ValueError, match="at the backward"):
        replay(recipe, forward)


def test_a_known_way_at_a_backward_is_of_the_library_of_the_equal_problem() -> None:
    forward, backward = catalog.directions(case("uniform_a2a"))
    there = replay(Recipe(base="permute_ring"), backward)
    here = replay(Recipe(base="permute_ring"), forward)
    assert [x.kind for x in there.nodes] == [x.kind for x in here.nodes]
    assert list(there.outputs) == [("d_send",)]
    identity = catalog.backward(case("tp_mlp"))
    assert identity is not None
    with pytest.raises(ValueError, match="equals no Problem"):
        replay(Recipe(base="developer"), identity)


def test_a_recipe_has_words_in_which_each_rule_stands_once() -> None:
    merge, early = ("merge", "all_gather:other:1", "all"), ("early_issue", "all_gather:other:1", "")
    at_two = Recipe(base="pair_gather", steps=(merge, early, ("early_issue", "all_gather:other:2", "")))
    assert at_two.words == "pair_gather, merge all, early issue"
    turned = Recipe(base=TransposeOf(recipe=Recipe(base="joined")), steps=(early,))
    assert turned.words == "transpose of joined, early issue"
    assert Recipe(base=source_base("text", "mine")).words == "sketch mine"
