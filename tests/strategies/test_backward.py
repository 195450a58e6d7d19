"""What the transposes of the known ways become when collectives of equal copies are taken out."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.transpose import transpose
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import case


def _backward(name: str, **at: int) -> Problem:
    found = catalog.backward(case(name, **at))  # type: ignore[arg-type]
    assert found is not None
    return found


def _simplified(problem: Problem, strategy: str) -> Program:
    return replay(Recipe(base=TransposeOf(recipe=Recipe(base=strategy))), problem)


@pytest.mark.parametrize(
    "strategy",
    [
        "developer",
        "single_graph",
        "merged_over_microbatches",
        "reduce_scatter_all_gather",
        "all_to_all_sum",
        "all_to_all_of_copies",
        "bf16_on_the_wire",
        "hierarchical",
    ],
)
def test_no_collective_is_left_in_a_backward_of_tp_mlp(strategy: str) -> None:
    problem = _backward("tp_mlp", ranks=8, ranks_per_node=4)
    assert _simplified(problem, strategy).collectives == []


def test_the_exact_backwards_of_tp_mlp_are_one_program() -> None:
    problem = _backward("tp_mlp")
    exact = (
        "developer",
        "single_graph",
        "merged_over_microbatches",
        "reduce_scatter_all_gather",
        "all_to_all_sum",
    )
    assert len({_simplified(problem, s).digest for s in exact}) == 1


def test_the_backward_of_a_gather_and_a_scatter_keeps_the_gather_and_loses_the_scatter_of_copies() -> None:
    problem, strategy = _backward("uniform_a2a"), "gather_reduce_scatter"
    mechanical = transpose(replay(Recipe(base=strategy), catalog.build(problem.case)), problem)
    assert [x.kind for x in mechanical.collectives] == [Kind.ALL_GATHER, Kind.REDUCE_SCATTER]
    assert [x.kind for x in _simplified(problem, strategy).collectives] == [Kind.ALL_GATHER]


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        ("native", [Kind.ALL_TO_ALL]),
        ("permute_ring", [Kind.COLLECTIVE_PERMUTE] * 3),
        ("gather_slice", [Kind.REDUCE_SCATTER]),
        ("two_step_hierarchical", [Kind.ALL_TO_ALL] * 2),
    ],
)
def test_exchanges_turn_into_exchanges(strategy: str, kinds: list[Kind]) -> None:
    problem = _backward("uniform_a2a", ranks=4, ranks_per_node=2)
    assert [x.kind for x in _simplified(problem, strategy).collectives] == kinds


def test_there_is_no_backward_of_gradients_and_of_the_entry_site() -> None:
    assert catalog.backward(case("grad_ar")) is None
    entry = {"microbatches": 1, "layers": 1, "shape": [1, 1, 4], "site": "entry"}
    assert catalog.backward(case("tp_mlp", entry)) is None
