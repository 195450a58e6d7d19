"""An exchange or a gather as permutes: one for every distance but zero."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Kind
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case
from tests.rewrites.rules.tried import kinds, payloads, rewritten, traced

RULE = "ring"


@pytest.mark.parametrize(("expression", "block"), [("all_to_all(x)", 3), ("all_gather(x)", 12)])
def test_one_permute_for_every_distance(expression: str, block: int) -> None:
    new = rewritten(RULE, traced(f'io.write("y", {expression})', 4 * block))
    assert kinds(new) == [Kind.COLLECTIVE_PERMUTE] * 3
    assert payloads(new) == [block] * 3
    sources = {x.sources for x in new.collectives}
    assert sources == {(3, 0, 1, 2), (2, 3, 0, 1), (1, 2, 3, 0)}


def test_of_what_is_read_in_part_only_those_distances_stay() -> None:
    body = 'io.write("y", slice_axis(all_gather(x), 0, [12, 24, 36, 0], 12))'
    assert [x.sources for x in rewritten(RULE, traced(body, 12)).collectives] == [(1, 2, 3, 0)]


def test_a_layout_before_the_exchange_and_its_label() -> None:
    table = "[[0, -1, 5, 5], [1] * 4, [-1] * 4, [3, 2, 1, 0]]"
    body = f'boundary()\nio.write("y", all_to_all(index_select(x, {table})))'
    new = rewritten(RULE, traced(body, 4))
    assert [x.label.graph for x in new.collectives] == ["g1"] * 3


@pytest.mark.parametrize("ranks", [2, 5, 64])
def test_it_makes_the_known_ring(ranks: int) -> None:
    at = catalog.build(case("uniform_a2a", ranks=ranks))
    new = replay(Recipe(base="native", steps=((RULE, "all_to_all:world:1", ""),)), at)
    assert new.value_digest == replay(Recipe(base="permute_ring"), at).value_digest
