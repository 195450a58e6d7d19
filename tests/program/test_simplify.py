"""Collectives of equal copies go, everything else stays as it is."""

import pytest

from overlayccl_core.gates.equivalence import prove
from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from tests.random_programs import random_program
from tests.small_problems import exchange, traced


def made(body: str, size: int = 8) -> Program:
    problem = exchange(4, {"x": (8,), "e": (8,)}, {"y": (size,)}, equal=("e",), ranks_per_node=2)
    return traced(body, problem)


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ('all_reduce(io.read("e"))', 8),
        ('all_reduce(all_reduce(io.read("x")))', 8),
        ('reduce_scatter(io.read("e"))', 2),
        ('all_gather(io.read("e"))', 32),
        ('all_gather(slice_axis(io.read("e"), 0, [0, 2, 4, 6], 2))', 8),
        ('all_to_all(io.read("e"))', 8),
        ('all_to_all(slice_axis(scale(io.read("e"), 3), 0, [0, 1, 2, 3], 4))', 4),
        ('all_reduce(io.read("e"), "max")', 8),
    ],
)
def test_equal_copies_need_no_talk(expression: str, size: int) -> None:
    program = made(f'io.write("y", {expression})', size)
    smaller = simplify(program)
    assert len(smaller.collectives) == len(program.collectives) - 1
    if "max" not in expression:
        assert prove(smaller, program).passed


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ('all_reduce(io.read("x"))', 8),
        ('all_gather(io.read("x"))', 32),
        ('all_reduce(all_reduce(io.read("x"), "sum", [[0, 1], [2, 3]]), "sum", [[0, 2], [1, 3]])', 8),
        ('all_reduce(slice_axis(io.read("e"), 0, [0, 1, 2, 3], 4))', 4),
    ],
)
def test_different_values_stay_where_they_are(expression: str, size: int) -> None:
    program = made(f'io.write("y", {expression})', size)
    assert simplify(program) is program


SENT_BACK = "collective_permute(select(io.read('x'), {mask}), [(1, 0), (2, 1), (3, 2)])"


def test_who_sends_nothing_lays_out_what_a_sender_does() -> None:
    program = made(f'io.write("y", {SENT_BACK.format(mask=[0, 1, 1, 1])})')
    smaller = simplify(program)
    assert [x.kind for x in smaller.nodes] == [Kind.INPUT, Kind.COLLECTIVE_PERMUTE]
    assert prove(smaller, program).passed


def test_what_a_sender_lays_out_stays() -> None:
    program = made(f'io.write("y", {SENT_BACK.format(mask=[1, 1, 0, 1])})')
    assert simplify(program) is program


def test_copies_within_a_node_go_and_those_across_stay() -> None:
    program = made('io.write("y", all_reduce(all_reduce(io.read("x"), "sum", [[0, 1], [2, 3]])))')
    smaller = simplify(program)
    assert len(smaller.collectives) == 2
    again = made(
        'y = all_reduce(io.read("x"), "sum", [[0, 1], [2, 3]])\n'
        'io.write("y", all_reduce(y, "sum", [[0, 1], [2, 3]]))'
    )
    assert len(simplify(again).collectives) == 1


def test_labels_of_what_stays_are_kept() -> None:
    body = 'x = io.read("x")\ny = all_reduce(x)\nboundary()\nio.write("y", all_reduce(all_to_all(y)))'
    smaller = simplify(made(body))
    assert [x.label.graph for x in smaller.collectives] == ["", "g1"]
    assert smaller.collectives[1].kind is Kind.ALL_REDUCE


def test_a_layout_that_would_be_too_ragged_leaves_the_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    program = made('io.write("y", all_gather(slice_axis(io.read("e"), 0, [0, 4, 2, 6], 2)))', 8)
    assert simplify(program).collectives == []
    monkeypatch.setattr(maps, "MAX_RUNS", 3)
    assert simplify(program) is program


@pytest.mark.parametrize("seed", range(60))
def test_a_simplified_program_is_the_same(seed: int) -> None:
    program = random_program(seed)
    smaller = simplify(program)
    assert prove(smaller, program).passed
