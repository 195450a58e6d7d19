"""Every listed known way is proven, at small world sizes and at the one of a large cluster."""

from collections.abc import Iterator

import pytest

from benchmarks.examples import example
from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.stages.known_ways import KnownWay, known_ways_of
from tests.known_cases import REASONS, SMALL, case, proof_of

MOST_BYTES = 2**30  # that a proof may take


def _problem(at: Case, direction: Direction) -> Problem:
    return {p.direction: p for p in catalog.directions(at)}[direction]


def _cells() -> Iterator[tuple[str, Direction, KnownWay]]:
    """What is derived of ways of summing is proven where it is exact, and quickly."""
    for name in SMALL:
        for problem in catalog.directions(case(name)):
            for way in known_ways_of(problem):
                if problem.linear or way.role is not Role.DERIVED:
                    yield name, problem.direction, way


CELLS = [pytest.param(*cell, id="-".join((*cell[:2], cell[2].name))) for cell in _cells()]


# A proof by values is long at such a size: tests/gates/test_by_values.py has the developer's.
NONLINEAR = ("attention", "dist_ce")
LARGE = [
    cell for cell in CELLS if cell.values[2].role is not Role.DERIVED and cell.values[0] not in NONLINEAR
]


def _check(problem: Problem, strategy: str) -> None:
    try:
        program, proof = proof_of(problem, strategy)
    except NotApplicable as reason:
        assert str(reason) in REASONS
        assert "tier" not in str(reason) or problem.case.ranks_per_node == problem.ranks
        return
    assert legality.check(program).outcome is Outcome.PASS, legality.check(program).message
    assert proof.outcome is Outcome.PASS, proof.message
    assert int(proof["peak_bytes"]) < MOST_BYTES


@pytest.mark.parametrize(("name", "direction", "way"), CELLS)
def test_a_known_way_is_proven_on_two_nodes_of_four_ranks(
    name: str, direction: Direction, way: KnownWay
) -> None:
    """Other small sizes, on one tier, are drawn in test_odd_shapes.py."""
    _check(_problem(case(name, ranks=8, ranks_per_node=4), direction), way.name)


@pytest.mark.parametrize(("name", "direction", "way"), LARGE)
def test_a_known_way_is_proven_on_seven_nodes_of_32_ranks_at_training_shapes(
    name: str, direction: Direction, way: KnownWay
) -> None:
    _check(_problem(example(name, dtype="float32"), direction), way.name)


OF_TWO_TIERS = [
    (name, way.name)
    for name, direction, way in _cells()
    if direction is Direction.FORWARD and "hierarchical" in way.name
]


@pytest.mark.parametrize(("name", "way"), OF_TWO_TIERS)
def test_known_ways_of_two_tiers_are_listed_with_the_reason_where_there_is_one(name: str, way: str) -> None:
    with pytest.raises(NotApplicable, match="one tier"):
        proof_of(catalog.build(case(name)), way)
