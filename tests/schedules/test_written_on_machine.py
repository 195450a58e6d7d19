"""What is written runs on a machine that shares no code with the reader."""

import re
from random import Random

import pytest

from overlayccl_core.schedules.msccl_writing import write
from tests.known_cases import programs
from tests.schedules import machine
from tests.schedules.random_routes import random_sum
from tests.schedules.written_ways import OF_KIND, SUM, of_permutes, problem_of

SEEDS = 3


@pytest.mark.parametrize("kind", OF_KIND)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_ways_run_in_any_order_of_threads(kind: str, ranks: int) -> None:
    for name, program in of_permutes(problem_of(kind, ranks)).items():
        text = write(program, name)
        for seed in range(SEEDS):
            machine.run(text, seed=seed, slots=2)


@pytest.mark.parametrize("seed", (*range(10), 34, 65))
def test_random_routes_run(seed: int) -> None:
    random = Random(seed)
    ranks, chunks = random.randint(2, 6), random.randint(1, 5)
    machine.run(write(random_sum(problem_of(SUM, ranks, 2 * chunks), chunks, random)), seed=seed, slots=2)


def test_a_sum_that_does_not_wait_for_its_terms_is_wrong_in_some_order() -> None:
    """Planted: no step waits."""
    text = write(programs(problem_of(SUM, 4))["permute_ring_twice"])
    hasty = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', text)
    with pytest.raises(machine.Wrong):
        for seed in range(50):
            machine.run(hasty, seed=seed)
