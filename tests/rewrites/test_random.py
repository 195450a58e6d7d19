"""Rewrite rules one after another on random small Programs: always equal, always the same."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply, rule_names, steps_at
from tests.known_cases import PROBLEMS, case, programs
from tests.random_programs import equal_over_elements, random_program

PROGRAMS, IN_A_ROW = 300, 5
DIGESTS = 10  # Programs whose every step is done in another process too
LARGEST = 2000  # elements of a value after many steps
SELDOM = {
    "drop_boundary",
    "narrow_groups",
    "permute_directly",
    "scatter_what_is_read",
}  # rows.txt has their patterns


def drawn(seed: int) -> Program:
    """The Program of a seed, without what no output needs."""
    program = random_program(seed)
    return schedule(program.problem, program.outputs)


def results(program: Program, steps: Iterator[Step]) -> Iterator[tuple[Step, Program]]:
    """The steps that apply, and what they give; no value is much larger."""
    for step in steps:
        try:
            new = apply(program, step)
        except DoesNotApply:
            continue
        if max(x.size for x in new.nodes) <= LARGEST:
            yield step, new


def in_a_row(program: Program, random: Random, seen: Counter[str]) -> Iterator[tuple[list[Step], Program]]:
    """Random steps one after another, of the rules seen least; each with the steps before it, and its result."""
    done: list[Step] = []
    for _ in range(IN_A_ROW):
        rules = sorted(rule_names(), key=lambda name: (seen[name], random.random()))
        choices = (list(steps_at(program, (name,))) for name in rules)
        found = results(program, (random.choice(steps) for steps in choices if steps))
        step, program = next(found, (None, program))
        if step is None:
            return
        done.append(step)
        seen[step[0]] += 1
        yield done, program


def test_rules_in_a_row_keep_random_programs_right() -> None:
    seen: Counter[str] = Counter()
    for seed in range(PROGRAMS):
        before = drawn(seed)
        for done, new in in_a_row(before, Random(seed), seen):
            assert legality.check(new).passed, (seed, done)
            assert equal_over_elements(new, before), (seed, done)
            before = new
    assert set(rule_names()) - set(seen) <= SELDOM
    assert seen.total() >= 2 * PROGRAMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_rules_in_a_row_keep_known_ways_right(name: str) -> None:
    """Here segments wait for each other, and not all is linear."""
    seen: Counter[str] = Counter()
    for problem in catalog.directions(case(name, ranks_per_node=2)):
        for way, program in programs(problem, derived=False).items():
            new = program
            for done, new in in_a_row(program, Random(way), seen):
                assert legality.check(new).passed, (way, done)
            verdict = prove(new, program)  # bits that differ between ranks are found after values are right
            right = verdict.passed or verdict.reason is Reason.RANKS_DIFFER
            assert right or verdict["numerics"] == "lossy", (way, verdict.message)
    assert seen


def digests(programs: int) -> list[str]:
    """The digest of every step's result at so many Programs."""
    made = (results(program, steps_at(program)) for program in map(drawn, range(programs)))
    return [f"{step} {new.digest}" for found in made for step, new in found]


def test_results_do_not_depend_on_the_process() -> None:
    code = f"from tests.rewrites.test_random import digests; print(*digests({DIGESTS}), sep='\\n')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.splitlines() == digests(DIGESTS)
