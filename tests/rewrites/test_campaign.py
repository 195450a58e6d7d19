"""Every rewrite rule alone on random small Programs: right, as declared, and applied often."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from overlayccl_core.program.arithmetics import is_max
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.rewrites.apply import DoesNotApply, apply, rule_names, steps_at
from tests.random_programs import equal_over_elements, mutant
from tests.rewrites.campaign import ENOUGH, HEADER, in_a_row, program_of, run
from tests.rewrites.generator import random_program
from tests.rewrites.judge import differs

ROWS, IN_A_ROW = 300, 5
DIGESTS = 10  # Programs whose every step is done in another process too


@pytest.mark.parametrize("rule", rule_names())
def test_a_rule_keeps_random_programs_right(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    tally = run(rule)
    with capsys.disabled():
        print(f"\n{HEADER}\n{tally}")
    assert tally.applied == ENOUGH


def test_rules_in_a_row_keep_programs_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [in_a_row(seed, IN_A_ROW) for seed in range(ROWS)]
    seen = Counter(step[0] for row in rows for step in row)
    with capsys.disabled():
        print(f"\n{sum(map(len, rows))} steps in {len(rows)} rows: {dict(sorted(seen.items()))}")
    assert set(seen) == set(rule_names())
    assert sum(map(len, rows)) >= 4 * ROWS


def test_the_judge_agrees_with_the_evaluator_of_the_gates_on_mutants() -> None:
    verdicts = []
    for seed in range(500):
        program = program_of(seed)
        if program.problem.ranks != 4 or any(spec.valid for spec in program.problem.outputs.values()):
            continue
        if any(is_max(x) or x.kind in (Kind.CAST, Kind.ROWWISE) for x in program.nodes):
            continue
        random = np.random.default_rng(seed)
        for _ in range(4):
            if (other := mutant(program, random)) is not None:
                verdicts.append(not differs(other, program))
                assert equal_over_elements(other, program) == verdicts[-1], f"seed {seed}"
    assert min(verdicts.count(True), verdicts.count(False)) >= 50


def digests(programs: int) -> list[str]:
    """The digest of every step's result, or `-`, at so many Programs."""
    digests = []
    for seed in range(programs):
        program = random_program(seed)
        for step in steps_at(program):
            try:
                digests.append(apply(program, step).digest)
            except (DoesNotApply, Rejected):
                digests.append("-")
    return digests


def test_results_do_not_depend_on_the_process() -> None:
    code = f"from tests.rewrites.test_campaign import digests; print(*digests({DIGESTS}), sep='\\n')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.split() == digests(DIGESTS)
