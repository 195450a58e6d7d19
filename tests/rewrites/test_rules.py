"""What no row of rows.txt can say of a rule: knobs worth trying, buckets of megabytes, what is in flight."""

from dataclasses import replace
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.program import maps
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import IssueOrder, Kind, Reduction
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.nodes import Node, make_collective, make_sum, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import OPERATIONS
from overlayccl_core.program.schedule import schedule
from overlayccl_core.rewrites.apply import DoesNotApply, apply
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import rule
from tests.known_cases import case
from tests.rewrites.rows import traced
from tests.small_problems import exchange

SUM, GATHER = "all_reduce:world:1", "all_gather:world:1"
ELEMENTS = MIB // 4  # of a MiB


def gradients(*sizes: int, overlap: bool = False) -> Program:
    """An all_reduce of each gradient."""
    return replay(
        Recipe(base="one_by_one"),
        catalog.build(case("grad_ar", {"sizes": list(sizes), "overlap": overlap})),
    )


def payloads(program: Program) -> list[int]:
    """Elements of what each collective reads."""
    return [x.operands[0].size for x in program.collectives]


def knobs(name: str, program: Program) -> tuple[str, ...]:
    """What a rule calls worth trying at all collectives of a Program."""
    return rule(name).knobs(program, program.collectives)


# ----------------------------------------------------------------------------------------- merge, coalesce, split
def test_a_cap_in_mib_counts_bytes_of_operands() -> None:
    program = gradients(20 * ELEMENTS, 5 * ELEMENTS, 1, 24 * ELEMENTS, 40 * ELEMENTS)
    merged = apply(program, ("merge", SUM, "25MiB"))
    assert payloads(merged) == [25 * ELEMENTS, 24 * ELEMENTS + 1, 40 * ELEMENTS]


def test_calls_are_filled_up_to_their_cap_as_the_model_gives_their_values() -> None:
    program = gradients(*(n * ELEMENTS for n in (12, 10, 30, 20)))
    for cap, calls in (("25MiB", [2, 1, 1]), ("64MiB", [3, 1])):
        assert [len(call) for call in apply(program, ("coalesce", SUM, cap)).calls] == calls
    assert knobs("coalesce", program) == ("all", "25MiB", "64MiB")


def test_a_cap_gives_the_fewest_parts_that_keep_it() -> None:
    program = gradients(60 * ELEMENTS, 25 * ELEMENTS)
    assert knobs("split", program) == ("2", "4", "8", "25MiB")
    assert payloads(apply(program, ("split", SUM, "25MiB"))) == [20 * ELEMENTS] * 3 + [25 * ELEMENTS]


def test_a_million_collectives_for_one_are_refused() -> None:
    program = gradients(2**20)
    with pytest.raises(DoesNotApply, match=r"at most 1024 .*got 1000000"):
        apply(program, ("split", SUM, "1000000"))
    assert len(apply(program, ("split", SUM, "1024")).collectives) == 1024


def test_parts_are_not_cut_over_and_over() -> None:
    program, reached = gradients(*[2**20] * 3), []
    with pytest.raises(DoesNotApply, match=r"a class is cut into at most 1024 parts \(got 1536\)"):
        for _ in range(3):  # without a bound there would be 1,536
            reached.append(len(program.collectives))
            program = apply(program, ("split", SUM, "8"))
    assert reached == [3, 24, 192]


def test_shares_are_worth_trying_if_they_give_different_buckets() -> None:
    assert knobs("merge", gradients(5, 3, 1, 5, 2)) == ("all", "1/2", "1/3")
    assert knobs("merge", gradients(7)) == ()


def test_overlapped_gradients_are_joined_as_they_come() -> None:
    merged = apply(gradients(5, 3, 1, 5, 2, overlap=True), ("merge", SUM, "1/2"))
    assert payloads(merged) == [8, 8]  # 2 5 1 | 3 5
    assert [sorted(_inputs(x)) for x in merged.collectives] == [[2, 3, 4], [0, 1]]


def _inputs(x: Node) -> list[Any]:
    return [x.port[1]] if not x.operands else [port for y in x.operands for port in _inputs(y)]


def test_buckets_do_not_depend_on_the_order_of_issue() -> None:
    parts = [f"{name} = all_reduce(slice_axis(x, 0, {i}, {i + 3}))" for i, name in enumerate("yzwv")]
    one, other = (traced("; ".join(lines) + " -> 3, 4, 5, 6") for lines in (parts, parts[::-1]))
    assert one.digest != other.digest
    assert len({apply(p, ("merge", SUM, "1/2")).value_digest for p in (one, other)}) == 1


# ------------------------------------------------------------------------------------------------ other rules
def in_flight(program: Program) -> int:
    """The most collectives that are in flight at once."""
    return 1 + max(step.in_flight for step in lower(program) if step.action is Action.START)


def test_early_collectives_of_a_layer_are_in_flight_together() -> None:
    problem = catalog.build(case("tp_mlp", {"microbatches": 3, "layers": 2, "shape": [5]}))
    one_graph = replay(Recipe(base="developer", steps=(("drop_boundary", SUM, ""),)), problem)
    early = apply(one_graph, ("early_issue", SUM, ""))
    assert (in_flight(one_graph), in_flight(early)) == (1, 3)
    assert all(x.label.issue is IssueOrder.EARLY for x in early.collectives)


def test_where_ranks_compile_no_collective_is_early() -> None:
    """A graph has no order of calls."""
    compiled = catalog.reference_program(catalog.build(case("tp_mlp", uniform=True)))
    with pytest.raises(DoesNotApply, match="order of calls"):
        apply(compiled, ("early_issue", SUM, ""))


@pytest.mark.parametrize(
    ("groups", "ranks_per_node"), [("None", 1), ("None", 4), ("PAIRS", 2), ("((1, 0, 2, 3),)", 2)]
)
def test_of_one_tier_and_of_other_groups_than_the_world_no_tiers_are_tried(
    groups: str, ranks_per_node: int
) -> None:
    assert (
        knobs("two_tiers", traced(f"all_to_all(x, 0, {groups}) -> 12", ranks_per_node=ranks_per_node)) == ()
    )


def test_copies_whose_layout_would_be_too_ragged_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    program = traced("all_gather(slice_axis(e, 0, [0, 4, 2, 6], 2)) -> 8")
    monkeypatch.setattr(maps, "MAX_RUNS", 3)
    with pytest.raises(DoesNotApply, match="side conditions"):
        apply(program, ("equal_copies", GATHER, ""))


@pytest.mark.parametrize("reduction", Reduction)
def test_what_is_no_sum_is_not_reduced_once(reduction: Reduction) -> None:
    """In the language a sum of maxima is an operation on elements."""
    problem = exchange(4, {"a": (6,), "b": (6,)}, {"y": (6,)})
    reduced = [
        make_collective(Kind.ALL_REDUCE, problem.input_node((port,)), world(4), reduction=reduction)
        for port in "ab"
    ]
    added = schedule(problem, {("y",): make_sum(make_view(reduced, maps.identity(12)), 2)})
    if reduction is Reduction.SUM:
        assert payloads(apply(added, ("one_reduction", SUM, ""))) == [6]
    else:
        with pytest.raises(DoesNotApply, match="side conditions"):
            apply(added, ("one_reduction", SUM, ""))


def test_rows_are_reduced_in_parts_by_the_reduction_of_their_operation_and_not_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = traced("reduce_max(reshape(all_gather(x), (4, 12)), 0) -> 12")
    (reduced,) = apply(program, ("push_through_gather", GATHER, "")).collectives
    assert reduced.attr.reduction is Reduction.MAX
    monkeypatch.setitem(OPERATIONS, "row_max", replace(OPERATIONS["row_max"], reduction=None))
    with pytest.raises(DoesNotApply, match="side conditions"):
        apply(program, ("push_through_gather", GATHER, ""))
