"""Equivalence: a Program equals its reference, for all inputs, on all ranks, at its own shapes.

A Problem declares whether it is linear. The proof of a linear Program has four steps:

1. Reduce both to atoms and evaluate them modulo 2^31 - 1 on random inputs, independent for every rank and port, in
   two trials. A wrong Program passes with probability below 2^-60 (Schwartz and Zippel), unless it was built to
   vanish modulo the prime.
2. Close that hole with gain and denominators: on ones, with absolute coefficients, both have the same gain. So
   nothing cancels, no value leaves the range of floats, and (gains) * (common denominator) < 2^31 - 1. Their
   difference, as a fraction, then has a numerator below the prime: zero modulo the prime is zero. A coefficient of
   0 is refused, too: 0 times infinity is NaN.
3. Run both in their own dtypes (rounding.py).
4. Compare the bits of replicated outputs on all ranks (replicas.py).

A nonlinear Program is compared with its reference on values (by_values.py).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from overlayccl_core.gates.by_values import class_of_numerics, try_values
from overlayccl_core.gates.components import components, form_of
from overlayccl_core.gates.counterexample import explain
from overlayccl_core.gates.draws import compared_values, drawn_inputs
from overlayccl_core.gates.legality import nonlinear_operation
from overlayccl_core.gates.replicas import unlike_replicas
from overlayccl_core.gates.rounding import NO_ROUNDING, Rounding, measure
from overlayccl_core.gates.verdict import ALL_CHECKS, Checks, ProofCheck, Reason, Verdict, Wrong
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.arithmetics import PRIME, Gain, Modular
from overlayccl_core.program.atoms import AtomPair, block_cuts, interval_cuts
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.meaning import RankData, TooLarge, evaluate
from overlayccl_core.program.nodes import Outputs, Port, topological
from overlayccl_core.program.numerics import LOSSY_TOLERANCE, loses
from overlayccl_core.program.problem import Problem, port_text
from overlayccl_core.program.program import Program

TRIALS = 2
UNPROVEN = (Reason.TOO_LARGE, Reason.DENOMINATOR, Reason.PROBLEM_NOT_LINEAR, Reason.PARTS_JOINED)
QUICK_WORDS = 2**18  # of a value on all ranks: small enough without intervals
GAIN_TOLERANCE = 1e-9
WIDE_RANGE = 2.0**20
FLOAT16_RANGE = 2.0**4  # its exponents end at 2^-14 and 2^15, and the inputs need their share of them


@dataclass(slots=True, kw_only=True)
class _Proof:
    """State and findings of a running proof."""

    program: Program
    reference: Program
    checks: Checks
    lossy_bound: float
    atoms: int = 0
    components: int = 0
    method: str = "blocks"
    peak_bytes: int = 0
    rounding: Rounding = NO_ROUNDING
    proven: set[object] = field(default_factory=set)

    def verdict(self, reason: Reason = Reason.OK, message: str = "") -> Verdict:
        outcome = Outcome.PASS if reason is Reason.OK else Outcome.FAIL
        if reason in UNPROVEN:
            outcome = Outcome.UNPROVEN
        return Verdict.of(
            *(Gate.EQUIVALENCE, outcome, reason, message),
            atoms=self.atoms,
            components=self.components,
            method=self.method,
            numerics=self.rounding.kind.value,
            error=self.rounding.error,
            peak_bytes=self.peak_bytes,
        )


def prove(
    program: Program,
    reference: Program,
    checks: Checks = ALL_CHECKS,
    *,
    lossy_bound: float = LOSSY_TOLERANCE,
) -> Verdict:
    """Prove a Program equal to its reference.

    Args:
        lossy_bound: Largest relative error of a lossy Program; the developer's `own_error` if larger.

    Returns:
        Pass; fail with a counterexample; or unproven, a rejection too. Evidence: atoms (of the largest value),
        components, method (blocks, intervals or values), peak_bytes, numerics (class) and error (in the Program's
        own dtypes, against float64).
    """
    proof = _Proof(program=program, reference=reference, checks=checks, lossy_bound=lossy_bound)
    try:
        _check_question(proof)
        if program.problem.linear:
            for pair in components(program, reference):
                proof.components += 1
                _prove_component(proof, pair)
        else:
            _prove_by_values(proof)
    except Wrong as wrong:
        return proof.verdict(wrong.reason, str(wrong))
    except TooLarge as error:
        return proof.verdict(Reason.TOO_LARGE, f"not provable within the budget: {error}")
    return proof.verdict()


def _check_question(proof: _Proof) -> None:
    ours, theirs = proof.program.problem, proof.reference.problem
    if any(
        getattr(ours, part) != getattr(theirs, part) for part in ("case", "direction", "inputs", "outputs")
    ):
        raise Wrong(
            Reason.OTHER_PROBLEM,
            f"the Program is of {ours.name} at {ours.case.id}, the reference of {theirs.name} at"
            f" {theirs.case.id}: a proof is of one Case, trace both there",
        )
    if ProofCheck.LINEAR in proof.checks and (wrong := nonlinear_operation(proof.program, theirs)):
        raise Wrong(Reason.NOT_LINEAR, wrong)
    if not ours.linear and theirs.nonlinear is None:
        raise Wrong(
            Reason.PROBLEM_NOT_LINEAR,
            f"{ours.name} is not linear and brings no data to be tried on (Problem.nonlinear)",
        )


def _prove_by_values(proof: _Proof) -> None:
    proof.method, proof.components = "values", 1
    proof.atoms = max(x.size for x in proof.program.nodes)
    kind = class_of_numerics(proof.program, proof.reference)
    proof.rounding = Rounding(kind=kind, error=0.0)  # a proof that fails says it too
    tried = try_values(proof.program, proof.reference, proof.checks, proof.lossy_bound)
    proof.rounding = Rounding(kind=kind, error=tried.error)
    proof.peak_bytes = tried.peak_bytes


def _prove_component(proof: _Proof, pair: AtomPair) -> None:
    problem = proof.program.problem
    if cut_to_atoms(pair, problem.ranks):
        proof.method = "intervals"
    proof.atoms = max(proof.atoms, pair.largest)
    form = form_of(pair, problem)
    if form not in proof.proven:
        _compare(proof, pair)
        proof.proven.add(form)


def cut_to_atoms(pair: AtomPair, ranks: int) -> bool:
    """Reduce a pair to atoms in place; return whether intervals were needed."""
    pair.cut(block_cuts)
    if pair.largest * ranks <= QUICK_WORDS or not pair.is_too_fine:
        return False
    pair.cut(interval_cuts)
    return True


def lossy_bound_of(developer: Program, reference: Program) -> float:
    """Return LOSSY_TOLERANCE or, if it is larger and the developer's Program fits, the developer's own error."""
    try:
        return max(LOSSY_TOLERANCE, own_error(developer, reference))
    except TooLarge:
        return LOSSY_TOLERANCE


def own_error(program: Program, reference: Program) -> float:
    """Return the largest relative error of a Program run in its own dtypes, against float64."""
    error = 0.0
    if not program.problem.linear:
        if not loses(program.outputs.values()):
            return error
        checks = frozenset({ProofCheck.HOSTILE, ProofCheck.NUMERICS})
        return try_values(program, reference, checks, math.inf).error
    for pair in components(program, reference):
        cut_to_atoms(pair, program.problem.ranks)
        error = max(error, measure(pair, program, ALL_CHECKS).error)
    return error


def _compare(proof: _Proof, pair: AtomPair) -> None:
    problem = proof.program.problem
    _check_denominators_are_units(pair)
    random = np.random.default_rng(int(proof.program.digest, 16))
    for _ in range(TRIALS if ProofCheck.VALUES in proof.checks else 0):
        inputs = drawn_inputs(
            pair, problem.ranks, lambda shape: random.integers(0, PRIME, shape), proof.checks
        )
        got, used = evaluate(pair.outputs, inputs, Modular(), problem.ranks)
        want, _ = evaluate(pair.wanted, inputs, Modular(), problem.ranks)
        proof.peak_bytes = max(proof.peak_bytes, used)
        if difference := _first_difference(problem, pair, got, want):
            raise Wrong(Reason.WRONG_VALUE, explain(proof.program, proof.reference, *difference))
    _check_gain(proof, pair)
    if ProofCheck.NUMERICS in proof.checks:
        measured = measure(pair, proof.program, proof.checks)
        proof.rounding = max(proof.rounding, measured, key=lambda n: n.rank)
        if message := measured.excess(proof.lossy_bound):
            raise Wrong(Reason.INACCURATE, message)
    if ProofCheck.REPLICAS in proof.checks and (message := unlike_replicas(pair, proof.program)):
        raise Wrong(Reason.RANKS_DIFFER, message)


def _first_difference(
    problem: Problem, pair: AtomPair, got: dict[Port, RankData], want: dict[Port, RankData]
) -> tuple[Port, int, int] | None:
    """Return (port, rank, element) of the first difference, or None."""
    for port, rank, a, b in compared_values(pair.valid_outputs, got, want, problem.ranks):
        if len(differ := np.flatnonzero(a != b)):
            return port, rank, pair.element(port, int(differ[0]))
    return None


def _check_gain(proof: _Proof, pair: AtomPair) -> None:
    problem = proof.program.problem
    ones = drawn_inputs(pair, problem.ranks, np.ones, proof.checks)
    gain = Gain()
    with np.errstate(over="ignore", invalid="ignore"):
        got, _ = evaluate(pair.outputs, ones, gain, problem.ranks)
        want, _ = evaluate(pair.wanted, ones, Gain(), problem.ranks)
    largest = 0.0
    for port, rank, x, y in compared_values(pair.valid_outputs, got, want, problem.ranks):
        if ProofCheck.GAIN in proof.checks and np.isnan(x).any():
            element = pair.element(port, int(np.isnan(x).argmax()))
            raise Wrong(
                Reason.GAIN,
                f"{port_text(port)} on rank {rank}, element {element}: 0 times a value is added, which is no"
                " zero where that value is infinite or NaN: leave it out, or take zeros(shape)",
            )
        if ProofCheck.GAIN in proof.checks and not np.allclose(x, y, rtol=GAIN_TOLERANCE, atol=0):
            raise Wrong(
                Reason.GAIN,
                f"{port_text(port)} on rank {rank}: coefficients add up to {x.max():g} instead of"
                f" {y.max():g}: leave out terms that cancel",
            )
        largest = max(largest, float(x.max() + y.max()))
    for dtype, (smallest, biggest) in gain.extremes.items() if ProofCheck.RANGE in proof.checks else ():
        low, high = allowed_range(dtype, problem.ranks)
        if not (smallest >= low and biggest <= high):
            raise Wrong(
                Reason.OUT_OF_RANGE,
                f"values of {smallest:g} to {biggest:g} times the inputs in {dtype.value} must stay within"
                f" {low:g} and {high:g}: floats lose them otherwise",
            )
    common = math.lcm(denominator(pair.outputs), denominator(pair.wanted))
    provable = math.isfinite(largest) and Fraction(largest) * common < PRIME
    if ProofCheck.DENOMINATOR in proof.checks and not provable:
        raise Wrong(
            Reason.DENOMINATOR,
            f"coefficients of up to {largest:g} in steps of 1/{common:.6g} are too fine for the proof"
            " (their product must stay below 2^31 - 1): use simpler ratios",
        )


def allowed_range(dtype: DType, ranks: int) -> tuple[float, float]:
    """Return a dtype's bounds of values relative to the inputs; a sum over N ranks and a mean before it fit."""
    if dtype is DType.FLOAT16:
        return 1 / (FLOAT16_RANGE * ranks), FLOAT16_RANGE * ranks
    return 1 / WIDE_RANGE, WIDE_RANGE * ranks


def _check_denominators_are_units(pair: AtomPair) -> None:
    """Reject denominators divisible by the prime: they have no inverse modulo it."""
    for x in pair.order:
        if x.kind is Kind.SCALE and x.ratio.denominator % PRIME == 0:
            raise Wrong(
                Reason.DENOMINATOR, f"a scale by {x.ratio} has no value modulo 2^31 - 1: use a simpler ratio"
            )


def denominator(outputs: Outputs) -> int:
    """Return a common denominator of all coefficients between inputs and outputs: products along paths."""
    below: dict[object, int] = {}
    for x in topological(outputs.values()):
        own = x.ratio.denominator if x.kind is Kind.SCALE else 1
        below[x] = own * math.lcm(1, *(below[y] for y in x.operands))
    return math.lcm(1, *(below[x] for x in outputs.values()))
