"""From a Case to its Problem, its reference and its backward."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.problem import Direction
from tests.known_cases import SMALL, case


@pytest.mark.parametrize("name", list(SMALL))
def test_references_are_legal_and_equal_themselves(name: str) -> None:
    for problem in catalog.directions(case(name)):
        reference = catalog.reference_program(problem)
        assert reference.problem == problem
        assert legality.check(reference).outcome is Outcome.PASS
        assert equivalence.prove(reference, reference).outcome is Outcome.PASS


def test_every_problem_gives_a_strategy_what_it_may_rely_on() -> None:
    for name in SMALL:
        at = case(name, ranks_per_node=2, dtype="bfloat16")
        common = {"world_size": 4, "ranks_per_node": 2, "dtype": "bfloat16"}
        for problem in catalog.directions(at):
            assert common.items() <= problem.parameters.items()


def test_a_problem_is_asked_for_by_direction() -> None:
    there, not_there = case("uniform_a2a"), case("grad_ar")
    assert [catalog.in_direction(there, d) for d in Direction] == list(catalog.directions(there))
    with pytest.raises(ValueError, match=r"grad_ar/.* has no backward"):
        catalog.in_direction(not_there, Direction.BACKWARD)


def test_only_problems_with_gradients_have_a_backward() -> None:
    found = {name: [p.direction for p in catalog.directions(case(name))] for name in SMALL}
    both = [Direction.FORWARD, Direction.BACKWARD]
    without = ("captured", "grad_ar", "pp_send_recv")  # nothing comes after it, or it has both passes in it
    assert found == {name: [Direction.FORWARD] if name in without else both for name in SMALL}


def test_an_unknown_problem_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"grad_ar, .*tp_mlp, .*uniform_a2a"):
        catalog.plug_in("alltoallw")
