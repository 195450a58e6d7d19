"""Programs as text: what a person reads."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.text_form import text
from overlayccl_core.program.tracing import trace_source
from tests.known_cases import SMALL, case, programs
from tests.random_programs import random_program


def _text(name: str, strategy: str, **at: int) -> list[str]:
    problem = catalog.build(case(name, **at))  # type: ignore[arg-type]
    return [line.strip() for line in text(_trace(problem, strategy)).splitlines()]


def _trace(problem: Problem, strategy: str) -> Program:
    return trace_source(catalog.library_source(problem.case.problem), strategy, problem)


def test_events_stand_in_their_order_with_values_named_where_they_are_needed() -> None:
    lines = _text("uniform_a2a", "native")
    assert lines[0].startswith("uniform_a2a/n4-240B-f32 forward, 1 collective, ")
    assert lines[1:] == [
        "send = read send  f32[60]",
        "v1 = all_to_all(send)  f32[60]",
        "write received = v1",
    ]


def test_layouts_are_told_in_the_words_of_the_language() -> None:
    lines = _text("tp_mlp", "reduce_scatter_all_gather")
    assert "view3 = concat(partial_0_0, partial_1_0, partial_2_0, zeros(3))  f32[108]" in lines
    assert any(line.endswith("[35:70]  f32[35]") for line in lines)


def test_boundaries_graphs_and_groups_are_shown() -> None:
    lines = _text("tp_mlp", "developer")
    assert lines.count("-------- graph boundary") == 3
    assert any("all_reduce(partial_1_0, graph g1)" in line for line in lines)
    grouped = _text("tp_mlp", "hierarchical", ranks=8, ranks_per_node=4)
    assert any("groups {0..3}, {4..7}" in line for line in grouped)


def test_what_differs_from_rank_to_rank_is_written_out_for_the_first_ones() -> None:
    lines = _text("uniform_a2a", "permute_ring", ranks=8)
    assert any("rank 0: send[15:30]; rank 1: send[30:45]" in line and "... 8 ranks" in line for line in lines)


def test_large_reorderings_are_reshapes_and_permutations() -> None:
    lines = _text("uniform_a2a", "gather_reduce_scatter", ranks=8)
    assert any("permute_dims(reshape(v1, (8, 8, 15)), (1, 0, 2))" in line for line in lines)


@pytest.mark.parametrize("name", list(SMALL))
def test_every_known_way_has_a_text_with_a_line_for_each_event(name: str) -> None:
    for problem in catalog.directions(case(name, ranks=8, ranks_per_node=4)):
        for program in programs(problem).values():
            lines = text(program).splitlines()
            assert sum(line.strip().startswith("write ") for line in lines) == len(problem.outputs)
            assert sum(" = read " in line for line in lines) == len(problem.inputs)


def test_random_programs_have_a_text() -> None:
    for seed in range(200):
        program = random_program(seed)
        assert program.digest in text(program)
