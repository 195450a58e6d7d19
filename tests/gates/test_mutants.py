"""The proof over atoms and the full-size proof never disagree on random Programs and what is made of them."""

import numpy as np
import pytest

from overlayccl_core.gates import equivalence
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import ALL_CHECKS, ProofCheck, Verdict
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program import atoms
from overlayccl_core.program.program import Program
from tests.random_programs import equal_over_elements, mutant, random_program

PROGRAMS = 220
MUTANTS_EACH = 4
VALUES_ONLY = ALL_CHECKS - {ProofCheck.NUMERICS}  # what the full-size proof decides


def verdicts(program: Program, reference: Program, monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """By blocks, and by intervals on top of them."""
    by_blocks = prove(program, reference, VALUES_ONLY)
    with monkeypatch.context() as forced:
        forced.setattr(equivalence, "QUICK_WORDS", 0)
        forced.setattr(atoms, "ATOMS_PER_PIECE", 0)
        by_intervals = prove(program, reference, VALUES_ONLY)
    assert (by_blocks["method"], by_intervals["method"]) == ("blocks", "intervals")
    return [by_blocks, by_intervals]


def test_proof_over_atoms_agrees_with_the_full_size_proof_on_every_mutant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = wrong = reduced = 0
    for seed in range(PROGRAMS):
        program = random_program(seed)
        random = np.random.default_rng(seed)
        for _ in range(MUTANTS_EACH):
            other = mutant(program, random)
            if other is None or other.value_digest == program.value_digest:
                continue
            truth = equal_over_elements(other, program)
            expected = Outcome.PASS if truth else Outcome.FAIL
            judged = verdicts(other, program, monkeypatch)
            assert {v.outcome for v in judged} == {expected}, f"seed {seed}: truth is {truth}"
            right, wrong = right + truth, wrong + (not truth)
            reduced += judged[0]["atoms"] < max(x.size for x in other.nodes)
    with capsys.disabled():
        print(f"\nmutants: {right + wrong}, right {right}, wrong {wrong}, reduced {reduced}")
    assert right >= 75
    assert wrong >= 150
    assert reduced >= 100
