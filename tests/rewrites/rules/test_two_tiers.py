"""A collective of the world is one within the nodes and one across them."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.groups import contiguous, strided
from overlayccl_core.program.kinds import Kind, Reduction
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import rule
from tests.known_cases import case
from tests.rewrites.rules.tried import kinds, payloads, refusal, rewritten, traced

RULE = "two_tiers"
AR, RS, AG, A2A = Kind.ALL_REDUCE, Kind.REDUCE_SCATTER, Kind.ALL_GATHER, Kind.ALL_TO_ALL


@pytest.mark.parametrize(
    ("expression", "size", "knob", "expected", "moved"),
    [
        ("all_reduce(x)", 12, "reduce", [AR, AR], [12, 12]),
        ("all_reduce(x)", 12, "scatter", [RS, AR, AG], [12, 4, 4]),
        ("all_reduce(slice_axis(x, 0, 0, 10))", 10, "scatter", [RS, AR, AG], [12, 4, 4]),
        ("all_gather(x)", 72, "", [AG, AG], [12, 24]),
        ("all_to_all(x)", 12, "", [A2A, A2A], [12, 12]),
    ],
)
def test_of_two_nodes_of_three(
    expression: str, size: int, knob: str, expected: list[Kind], moved: list[int]
) -> None:
    program = traced(f'io.write("y", {expression})', size, ranks=6, ranks_per_node=3)
    new = rewritten(RULE, program, knob)
    assert (kinds(new), payloads(new)) == (expected, moved)
    node, across = contiguous(6, 3), strided(6, 3)
    groups = [x.groups for x in new.collectives]
    assert groups == (
        [across, node] if knob == "" and expected[0] is AG else [node, across, node][: len(groups)]
    )


@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(4, 2), (6, 2), (8, 4)])
@pytest.mark.parametrize("expression", ["all_gather(x)", "all_to_all(broadcast(x, 0, 24))"])
def test_blocks_arrive_in_rank_order(expression: str, ranks: int, ranks_per_node: int) -> None:
    size = 12 * ranks if "gather" in expression else 288
    program = traced(
        f'io.write("y", reshape({expression}, ({size},)))', size, ranks=ranks, ranks_per_node=ranks_per_node
    )
    assert len(rewritten(RULE, program).collectives) == 2


@pytest.mark.parametrize("knob", ["reduce", "scatter"])
def test_a_maximum_of_negative_values_stays_a_maximum(knob: str) -> None:
    program = traced('io.write("y", all_reduce(slice_axis(x, 0, 0, 11), "max"))', 11, linear=False)
    new = rewritten(RULE, program, knob)
    reductions = [x.attr.reduction for x in new.collectives if x.kind in (AR, RS)]
    assert reductions == [Reduction.MAX, Reduction.MAX]


@pytest.mark.parametrize("ranks_per_node", [1, 4])
def test_one_tier_has_no_knobs_and_is_refused(ranks_per_node: int) -> None:
    program = traced('io.write("y", all_to_all(x))', 12, ranks_per_node=ranks_per_node)
    assert rule(RULE).knobs(program, program.collectives) == ()
    assert "one tier" in refusal(RULE, program)


@pytest.mark.parametrize("groups", ["((0, 1), (2, 3))", "((0, 2), (1, 3))", "((1, 0, 2, 3),)"])
def test_other_groups_than_the_world_are_refused(groups: str) -> None:
    program = traced(f'io.write("y", all_to_all(x, 0, {groups}))', 12)
    assert rule(RULE).knobs(program, program.collectives) == ()
    assert "side conditions" in refusal(RULE, program)


def test_a_form_that_there_is_not_is_refused() -> None:
    assert "'gather'" in refusal(RULE, traced('io.write("y", all_reduce(x))', 12), "gather")
    assert "no form" in refusal(RULE, traced('io.write("y", all_reduce(x))', 12), "")
    assert "'scatter'" in refusal(RULE, traced('io.write("y", all_to_all(x))', 12), "scatter")


def test_labels_stay() -> None:
    new = rewritten(RULE, traced('boundary()\nio.write("y", all_reduce(x))', 12), "scatter")
    assert [x.label.graph for x in new.collectives] == ["g1"] * 3


@pytest.mark.parametrize(
    ("problem", "before", "after", "site_class", "knob"),
    [
        ("uniform_a2a", "native", "two_step_hierarchical", "all_to_all:world:1", ""),
        ("tp_mlp", "merged_over_microbatches", "hierarchical", "all_reduce:world:1", "scatter"),
        ("grad_ar", "flat", "hierarchical", "all_reduce:world:1", "scatter"),
    ],
)
def test_it_makes_the_known_strategies(
    problem: str, before: str, after: str, site_class: str, knob: str
) -> None:
    at = catalog.build(case(problem, ranks=6, ranks_per_node=3))
    new = replay(Recipe(base=before, steps=((RULE, site_class, knob),)), at)
    assert new.value_digest == replay(Recipe(base=after), at).value_digest
