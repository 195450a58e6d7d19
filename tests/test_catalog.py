"""From a Case to its Problem, its reference and its backward."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.gates.verdict import Outcome
from overlayccl_core.program.problem import Direction
from tests.seed_cases import SMALL, case


@pytest.mark.parametrize("name", list(SMALL))
def test_references_are_legal_and_equal_themselves(name: str) -> None:
    for problem in catalog.directions(case(name)):
        reference = catalog.reference_program(problem)
        assert reference.problem == problem
        assert legality.check(reference).outcome is Outcome.PASS
        assert equivalence.prove(reference, reference).outcome is Outcome.PASS


def test_only_problems_with_gradients_have_a_backward() -> None:
    found = {name: [p.direction for p in catalog.directions(case(name))] for name in SMALL}
    both = [Direction.FORWARD, Direction.BACKWARD]
    assert found == {**dict.fromkeys(SMALL, both), "grad_ar": [Direction.FORWARD]}


def test_an_unknown_problem_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"grad_ar, .*tp_mlp, .*uniform_a2a"):
        catalog.plug_in("alltoallw")
