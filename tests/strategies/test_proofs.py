"""Every listed known way is proven, at small world sizes and at the one of a large cluster."""

from collections.abc import Iterator

import pytest

from benchmarks.examples import example
from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.stages.known_ways import KnownWay, known_ways_of
from tests.known_cases import REASONS, SMALL, case, proof_of

SMALL_SIZES = ((2, 2), (3, 3), (8, 4))  # test_odd_shapes.py has others on one tier
OF_DERIVED = ((3, 3), (8, 4))  # the ways that they are made of are proven at all
MOST_BYTES = 2**30  # that a proof may take
EVEN = ("pp_send_recv",)  # they refuse an odd number of ranks


def _problem(
    name: str, direction: Direction, ranks: int, ranks_per_node: int, dtype: str = "float32"
) -> Problem:
    at = (
        example(name, dtype=dtype) if ranks == 224 else case(name, ranks=ranks, ranks_per_node=ranks_per_node)
    )
    found = {p.direction: p for p in catalog.directions(at)}
    return found[direction]


def _cells() -> Iterator[tuple[str, Direction, KnownWay]]:
    """What is derived of ways of summing is proven where it is exact, and quickly."""
    for name in SMALL:
        for problem in catalog.directions(case(name)):
            for way in known_ways_of(problem):
                if problem.linear or way.role is not Role.DERIVED:
                    yield name, problem.direction, way


CELLS = [pytest.param(*cell, id="-".join((*cell[:2], cell[2].name))) for cell in _cells()]


# A proof by values is long at such a size: tests/gates/test_by_values.py has the developer's.
LARGE = [cell for cell in CELLS if cell.values[2].role is not Role.DERIVED and cell.values[0] != "dist_ce"]


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
def test_a_known_way_is_proven_at_small_world_sizes(name: str, direction: Direction, way: KnownWay) -> None:
    for ranks, ranks_per_node in OF_DERIVED if way.role is Role.DERIVED else SMALL_SIZES:
        if ranks % 2 and name in EVEN:
            continue
        _check(_problem(name, direction, ranks, ranks_per_node), way.name)


@pytest.mark.parametrize(("name", "direction", "way"), LARGE)
def test_a_known_way_is_proven_on_seven_nodes_of_32_ranks_at_training_shapes(
    name: str, direction: Direction, way: KnownWay
) -> None:
    _check(_problem(name, direction, 224, 32), way.name)


def _of_two_tiers() -> Iterator[tuple[str, str]]:
    for name in SMALL:
        for way in known_ways_of(catalog.build(case(name))):
            if "hierarchical" in way.name:
                yield name, way.name


@pytest.mark.parametrize(("name", "strategy"), list(_of_two_tiers()))
def test_known_ways_of_two_tiers_are_listed_with_the_reason_where_there_is_one(
    name: str, strategy: str
) -> None:
    problem = catalog.build(case(name))
    with pytest.raises(NotApplicable, match="one tier"):
        proof_of(problem, strategy)
