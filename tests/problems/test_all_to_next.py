"""all_to_next: who sends to whom, what leaves a node, and every known way proven, with open ends and round."""

from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.problems import all_to_next
from overlayccl_core.program.arithmetics import Real
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Kind, NotApplicable
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import BOUNDARY, Program
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.known_ways import known_way_rows, known_ways_of
from tests.known_cases import REASONS, proof_of
from tests.stages.test_known_ways import WITHOUT_EXCHANGE

PERMUTE = Kind.COLLECTIVE_PERMUTE


def case_of(ranks: int = 4, ranks_per_node: int = 0, **entry: Any) -> Case:
    fields = entry if "payload" in entry else {"elements": 12, **entry}
    return catalog.case("all_to_next", fields, ranks=ranks, ranks_per_node=ranks_per_node or ranks)


def way(name: str, case: Case) -> Program:
    return replay(Recipe(base=name), catalog.build(case))


# ------------------------------------------------------------------------------------------------------- Cases
def test_a_buffer_is_given_by_its_elements_or_its_bytes() -> None:
    case = case_of(payload="64KiB", round=True)
    assert case.id == "all_to_next/n4-64KiB-round-f32"
    assert case["elements"] == 16384 and all_to_next.payload_bytes(case) == 65536
    assert case_of(elements=16384).id == "all_to_next/n4-64KiB-f32"


def test_with_open_ends_the_first_rank_receives_nothing() -> None:
    problem = catalog.build(case_of(elements=6))
    assert problem.inputs["given",].valid is None and problem.outputs["received",].valid == (0, 6, 6, 6)
    assert catalog.build(case_of(elements=6, round=True)).outputs["received",].valid is None


@pytest.mark.parametrize("is_round", [False, True])
def test_each_rank_has_the_buffer_of_the_one_before(is_round: bool) -> None:
    program = catalog.reference_program(catalog.build(case_of(elements=6, round=is_round)))
    given = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    held, _ = evaluate(program.outputs, {("given",): given}, Real(), 4)
    received = held[("received",)].on_all()
    np.testing.assert_array_equal(received[1:], given[:3])
    np.testing.assert_array_equal(received[0], given[3] if is_round else np.zeros(6))


# ---------------------------------------------------------------------------------------------------- backward
@pytest.mark.parametrize("is_round", [False, True])
def test_the_gradient_goes_to_the_rank_before_as_it_is(is_round: bool) -> None:
    """With open ends the last rank's is zeros, whatever the first rank has; nobody lays out zeros for that."""
    backward = catalog.backward(case_of(elements=6, round=is_round))
    assert backward is not None
    program = catalog.developer_program(backward)
    assert [x.kind for x in program.nodes] == [Kind.INPUT, PERMUTE]
    gradient = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    if not is_round:
        gradient[0] = np.nan
    held, _ = evaluate(program.outputs, {("d_received",): gradient}, Real(), 4)
    wanted = np.roll(gradient, -1, axis=0) if is_round else np.vstack([gradient[1:], np.zeros(6)])
    np.testing.assert_array_equal(held[("d_given",)].on_all(), wanted)


# -------------------------------------------------------------------------------------------------- known ways
@pytest.mark.parametrize("is_round", [False, True])
@pytest.mark.parametrize("elements", [1, 12])
@pytest.mark.parametrize(
    ("ranks", "ranks_per_node"), [(2, 2), (2, 1), (3, 3), (4, 2), (6, 2), (6, 3), (9, 3), (8, 4)]
)
def test_every_known_way_is_proven(ranks: int, ranks_per_node: int, elements: int, is_round: bool) -> None:
    found = {}
    for problem in catalog.directions(case_of(ranks, ranks_per_node, elements=elements, round=is_round)):
        for one in known_ways_of(problem):
            try:
                found[problem.direction, one.name] = proof_of(problem, one.name)[1]
            except NotApplicable as reason:
                assert str(reason) in REASONS
    assert {name: v.message for name, v in found.items() if v.outcome is not Outcome.PASS} == {}
    assert any(name == "scattered" for _, name in found) is (1 < ranks_per_node < ranks)


@pytest.mark.parametrize(
    ("strategy", "calls", "elements"),
    [
        ("direct", [PERMUTE], [12]),
        ("in_pieces", [PERMUTE] * 4, [3] * 4),
        ("odd_even", [PERMUTE] * 2, [12] * 2),
        ("gather_take", [Kind.ALL_GATHER], [4 * 12]),
        ("all_to_all_take", [Kind.ALL_TO_ALL], [4 * 12]),
        ("reduce_scatter_slots", [Kind.REDUCE_SCATTER], [12]),
        ("pair_gather", [Kind.ALL_GATHER] * 2, [2 * 12] * 2),
        ("scattered", [PERMUTE] * 4, [6, 12, 6, 6]),
        ("scattered_in_pieces", [PERMUTE] * 13, [2] * 4 + [12] + [2] * 8),
        ("scattered_by_all_to_all", [Kind.ALL_TO_ALL, PERMUTE, PERMUTE, Kind.ALL_GATHER], [12, 12, 6, 12]),
    ],
)
def test_what_the_known_ways_send(strategy: str, calls: list[Kind], elements: list[int]) -> None:
    program = way(strategy, case_of(4, 2))
    assert [x.kind for x in program.collectives] == calls
    assert [x.size for x in program.collectives] == elements


def test_sends_that_block_are_over_before_the_next() -> None:
    assert way("odd_even", case_of(5, round=True)).events.count(BOUNDARY) == 3
    turns = [x.sources for x in way("odd_even", case_of(5, round=True)).collectives]
    assert turns == [(-1, 0, -1, 2, -1), (-1, -1, 1, -1, 3), (4, -1, -1, -1, -1)]


def leaving(program: Program, ranks_per_node: int) -> dict[int, int]:
    """Elements that leave their node, by the rank that sends them."""
    sent: dict[int, int] = {}
    for x in program.collectives:
        for rank, source in enumerate(x.sources):
            if source >= 0 and source // ranks_per_node != rank // ranks_per_node:
                sent[source] = sent.get(source, 0) + x.size
    return sent


@pytest.mark.parametrize("parts", ["scattered", "scattered_in_pieces"])
def test_scattered_each_rank_of_a_node_sends_a_part_of_what_leaves_it(parts: str) -> None:
    """Open ends, three nodes of four: two buffers leave a node, and the last node sends nothing."""
    case = case_of(12, 4, elements=32)
    assert leaving(way("direct", case), 4) == {3: 32, 7: 32}
    assert leaving(way(parts, case), 4) == dict.fromkeys(range(8), 8)
    assert leaving(way(parts, case_of(12, 4, elements=32, round=True)), 4) == dict.fromkeys(range(12), 8)


def test_the_developer_sends_where_the_library_can_and_gathers_elsewhere() -> None:
    problem = catalog.build(case_of())
    roles = [
        {r["role"]: r["strategy"] for r in known_way_rows(problem, can, None)}
        for can in (None, WITHOUT_EXCHANGE)
    ]
    assert [found["developer"] for found in roles] == ["direct", "gather_take"]
