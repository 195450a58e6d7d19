"""Ports: what of them means something on each rank."""

from dataclasses import replace

import pytest

from overlayccl_core.program.problem import PortSpec
from tests.small_problems import exchange


def test_all_elements_of_all_ranks_are_all() -> None:
    assert PortSpec(shape=(2, 3), valid=(6, 6)) == PortSpec(shape=(2, 3))
    assert PortSpec(shape=(2, 3), valid=(6, 0)).valid == (6, 0)


@pytest.mark.parametrize("valid", [(), (7, 0), (0, -1)])
def test_counts_of_elements_that_there_are_not_are_refused(valid: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"valid .*between 0 and 6"):
        PortSpec(shape=(2, 3), valid=valid)


def test_every_rank_has_a_count() -> None:
    problem = exchange(4, {"x": (6,)}, {"y": (6,)})
    inputs = {p: replace(s, valid=(6, 0, 1)) for p, s in problem.inputs.items()}
    with pytest.raises(ValueError, match=r"count .*the 4 .*got 3"):
        replace(problem, inputs=inputs)


def test_arguments_have_as_many_integers_of_every_rank() -> None:
    problem = exchange(2, {"x": (4,)}, {"y": (4,)})
    assert replace(problem, arguments={"counts": ((1, 2), (3, 0))}).arguments["counts"][1] == (
        3,
        0,
    )
    for rows in (((1, 2),), ((1, 2), (3,))):
        with pytest.raises(ValueError, match=r"counts .*of the 2 ranks"):
            replace(problem, arguments={"counts": rows})
