"""A search of what is not linear: the same rules, elites compared on values."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.problem import Direction
from overlayccl_core.search.proposers.offline import Offline
from tests.known_cases import case
from tests.search.costs import OFFLINE, plain, pricing_of, seeker_of

PROVEN = 8  # of the cheapest families
TINY = case("dist_ce", {"tokens": 8, "vocabulary": 24})


@pytest.mark.parametrize("direction", list(Direction))
def test_rules_find_ways_of_a_cross_entropy_and_elites_are_right(direction: Direction) -> None:
    problem = catalog.in_direction(TINY, direction)
    seeker = seeker_of(problem, pricing_of(plain), search=OFFLINE.changed(families=PROVEN, random=0))
    result = seeker.result(Offline(seeker.search))
    assert result.best is not None and result.elites
    elites = {c.program.digest for c in result.elites[:PROVEN] if c.feasible}
    assert elites <= {digest for digest, verdict in seeker.archive.prover.verdicts.items() if verdict.passed}
    if direction is Direction.FORWARD:
        # A sum and a target that are merged: the known way with two all_reduce, found from the one with three.
        assert len(result.best.program.collectives) == 2
