"""Rewrite rules one after another on random small Programs: always equal, always the same."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random

from overlayccl_core.gates import legality
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply, rule_names, steps_at
from tests.random_programs import equal_over_elements, random_program

PROGRAMS, IN_A_ROW = 300, 5
DIGESTS = 10  # Programs whose every step is done in another process too
LARGEST = 1000  # elements of a value after many steps
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
    """The steps that apply, and what they give."""
    for step in steps:
        try:
            yield step, apply(program, step)
        except DoesNotApply:
            continue


def test_rules_in_a_row_keep_random_programs_right() -> None:
    seen: Counter[str] = Counter()
    for seed in range(PROGRAMS):
        random, program, done = Random(seed), drawn(seed), list[Step]()
        for _ in range(IN_A_ROW):
            rules = sorted(rule_names(), key=lambda name: (seen[name], random.random()))  # the rarest first
            choices = (list(steps_at(program, (name,))) for name in rules)
            found = results(program, (random.choice(steps) for steps in choices if steps))
            step, new = next(
                ((s, p) for s, p in found if max(x.size for x in p.nodes) <= LARGEST), (None, program)
            )
            if step is None:
                break
            done.append(step)
            assert legality.check(new).passed, (seed, done)
            assert equal_over_elements(new, program), (seed, done)
            seen[step[0]] += 1
            program = new
    assert set(rule_names()) - set(seen) <= SELDOM
    assert seen.total() >= 2 * PROGRAMS


def digests(programs: int) -> list[str]:
    """The digest of every step's result at so many Programs."""
    made = (results(program, steps_at(program)) for program in map(drawn, range(programs)))
    return [f"{step} {new.digest}" for found in made for step, new in found]


def test_results_do_not_depend_on_the_process() -> None:
    code = f"from tests.rewrites.test_random import digests; print(*digests({DIGESTS}), sep='\\n')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.splitlines() == digests(DIGESTS)
