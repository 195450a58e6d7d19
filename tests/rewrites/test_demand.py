"""Demand: who reads what of a gather, worked out once for results that are read alike."""

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.nodes import Node, make_cast, make_input, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import demand
from tests.rewrites.rows import traced


def gathers(before: str) -> tuple[Program, list[Node]]:
    program = traced(before)
    return program, [x for x in program.collectives if x.kind is Kind.ALL_GATHER]


def test_pieces_lie_in_one_block_and_name_its_sender() -> None:
    program, (x,) = gathers("slice_axis(all_gather(x, 0, CROSSED), 0, [0, 10, 12, 20], 4) -> 4")
    demanded = demand.of_gather(program, x, program.users())
    assert demanded is not None
    assert demanded.rank.tolist() == [0, 1, 1, 2, 3]
    assert demanded.place.tolist() == [0, 0, 1, 1, 1]
    assert demanded.sender.tolist() == [0, 1, 2, 2, 3]
    assert demanded.offset.tolist() == [0, 10, 0, 0, 8]
    assert demanded.length.tolist() == [4, 2, 2, 4, 4]
    assert demanded.own.tolist() == [True, True, False, True, True]


def test_a_gather_that_all_ranks_read_in_full_has_no_demand() -> None:
    program, (x,) = gathers("index_select(all_gather(x), list(range(47, -1, -1))) -> 48")
    assert demand.of_gather(program, x, program.users()) is None


def test_results_that_are_read_alike_are_planned_once_and_others_apart() -> None:
    alike = "y = slice_axis(all_gather(x), 0, 0, 5); z = slice_axis(all_gather(e), 0, 0, 5)"
    too = "w = slice_axis(all_gather(add(x, e)), 0, 0, 5)"
    elsewhere = "v = slice_axis(all_gather(index_select(x, [3, 2, 1, 0] * 3)), 0, 1, 5)"
    others = "u = slice_axis(all_gather(add(x, e), 0, CROSSED), 0, 0, 5)"
    program, sites = gathers(f"{alike}; {too}; {elsewhere}; {others} -> 5, 5, 5, 5, 5")
    asked = []

    def wanted_of(program, x, users):  # type: ignore[no-untyped-def]
        asked.append(x)
        return demand.of_gather(program, x, users)

    plans = demand.planned(program, sites, wanted_of, lambda x, wanted: (x.groups, wanted.start[0]))
    assert (len(sites), len(asked), len(plans)) == (5, 3, 5)
    assert len(set(plans.values())) == 3


def test_end_to_end_counts_within_each_cell() -> None:
    slots, most = demand.end_to_end(np.array([0, 0, 2, 2, 2]), np.array([3, 1, 5, 1, 1]), 4)
    assert (slots.tolist(), most) == ([0, 3, 0, 5, 6], 7)


def test_a_view_as_another_rank_lays_out_also_what_it_is_a_view_of() -> None:
    x = make_input(("x",), equal=False, size=4)
    masked = make_cast(make_view([x], maps.on_ranks([False, True, False], 4)), DType.FLOAT16)
    order = demand.first_that(np.array([False, True, False]))
    assert order.tolist() == [1, 1, 1]
    assert demand.view_as(masked, maps.identity(4), order) is make_cast(x, DType.FLOAT16)
    assert demand.first_that(np.array([False, True, True])).tolist() == [1, 1, 2]


def test_an_output_is_not_planned_like_another_result_that_is_read_as_it_is() -> None:
    program, sites = gathers(
        "y = all_gather(x); h = all_gather(add(x, e)); z = slice_axis(h, 0, 0, 5); w = slice_axis(y, 0, 0, 5)"
        " -> 48, 5, 5"
    )
    for order in (sites, sites[::-1]):
        plans = demand.planned(program, order, demand.of_gather, lambda x, wanted: True)
        assert [x in program.outputs.values() for x in plans] == [False]
