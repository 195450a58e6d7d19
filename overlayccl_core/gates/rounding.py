"""Rounding: a Program's effect on the last digits, derived from its graph and checked in its own dtypes."""

from dataclasses import dataclass

import numpy as np

from overlayccl_core.gates.draws import compared_values, drawn_inputs, with_invalid
from overlayccl_core.gates.verdict import ALL_CHECKS, Checks, ProofCheck
from overlayccl_core.program.arithmetics import MIXED, NUMPY_DTYPES, PRIME, Array, Double, Origins, Real
from overlayccl_core.program.atoms import AtomPair
from overlayccl_core.program.meaning import RankData, evaluate
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.numerics import REORDERED_TOLERANCE, NumericsClass, loses
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program

SAMPLES = 256
MAX_SAMPLED_WORDS = 2**20
MOVED_BOUND = 1e-12  # a moved element against float64, in which N equal terms divided by N may round


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """Class and errors of a Program. An error is the largest rms error over rms of an output on a rank.

    Attributes:
        same_operations: Whether it has the reference's terms and operations: both must give the same bits.
    """

    kind: NumericsClass
    error: float  # error against float64
    reference_error: float = 0.0  # the same of the reference
    off_reference: float = 0.0  # error against the reference in its own dtypes
    same_operations: bool = False

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key; larger is worse."""
        return list(NumericsClass).index(self.kind), self.error

    def excess(self, lossy_bound: float) -> str:
        """Describe an error out of the bound of its class; empty: it is within."""
        bound = {
            NumericsClass.EXACT: 0.0 if self.same_operations else MOVED_BOUND,
            NumericsClass.REORDERED: REORDERED_TOLERANCE,
            NumericsClass.LOSSY: max(lossy_bound, self.reference_error),
        }[self.kind]
        off = self.off_reference if self.same_operations else self.error
        if off <= bound:
            return ""
        return (
            f"in its own dtypes it is off by {off:.2g} of the result's size (a Program of class"
            f" {self.kind.value} may be off by {bound:.2g}): sum and scale in a wider dtype"
        )


NO_ROUNDING = Rounding(kind=NumericsClass.EXACT, error=0.0, same_operations=True)


def measure(pair: AtomPair, program: Program, checks: Checks) -> Rounding:
    """Return the class of one component, and its errors on zero-mean and one-sign data, NaN where not valid."""
    problem = program.problem
    pair = _with_samples(pair, problem)
    random = np.random.default_rng(int(program.digest, 16) + 1)
    same, moved = _origins(pair, problem, random)
    rounded = NumericsClass.LOSSY if loses(pair.outputs.values()) else NumericsClass.REORDERED
    kind = NumericsClass.EXACT if same or moved else rounded
    error = reference_error = off_reference = 0.0
    for one_sign in (False, True):
        inputs = _real_inputs(pair, problem, random, checks, one_sign=one_sign)
        with np.errstate(all="ignore"):  # an overflow shows up as an infinite error
            got, _ = evaluate(pair.outputs, inputs, Real(), problem.ranks)
            own, _ = evaluate(pair.wanted, inputs, Real(), problem.ranks)
            wide = {port: data.astype(np.float64) for port, data in inputs.items()}
            truth, _ = evaluate(pair.wanted, wide, Double(), problem.ranks)
            error = max(error, _error(problem, pair, got, truth))
            reference_error = max(reference_error, _error(problem, pair, own, truth))
            off_reference = max(off_reference, _error(problem, pair, got, own))
    return Rounding(
        kind=kind,
        error=error,
        reference_error=reference_error,
        off_reference=off_reference,
        same_operations=same,
    )


def _with_samples(pair: AtomPair, problem: Problem) -> AtomPair:
    """Widen the component to enough elements per atom for a meaningful rms of each output."""
    smallest = min(x.size for x in pair.outputs.values())
    lanes = min(-(-SAMPLES // smallest), max(1, MAX_SAMPLED_WORDS // (pair.largest * problem.ranks)))
    return pair if lanes == 1 else pair.widened(lanes)


def _origins(pair: AtomPair, problem: Problem, random: np.random.Generator) -> tuple[bool, bool]:
    """Return (the same terms in the same operations as the reference, no rounding operation at all)."""
    inputs = drawn_inputs(pair, problem.ranks, lambda shape: random.integers(1, PRIME, shape), ALL_CHECKS)
    got, _ = evaluate(pair.outputs, inputs, Origins(), problem.ranks)
    want, _ = evaluate(pair.wanted, inputs, Origins(), problem.ranks)
    same = moved = True
    for _, _, mine, theirs in compared_values(pair.valid_outputs, got, want, problem.ranks):
        same &= bool((mine == theirs).all())
        moved &= bool((mine < MIXED).all())
    return same, moved


def _real_inputs(
    pair: AtomPair, problem: Problem, random: np.random.Generator, checks: Checks, *, one_sign: bool
) -> dict[Port, Array]:
    def draw(shape: tuple[int, int]) -> Array:
        data = random.standard_normal(shape)
        return np.abs(data) if one_sign else data

    inputs = drawn_inputs(pair, problem.ranks, draw, checks)
    nodes, valid = pair.inputs, pair.valid_inputs
    if ProofCheck.INVALID_INPUTS in checks:
        inputs = {port: with_invalid(data, valid.get(port), np.nan) for port, data in inputs.items()}
    return {port: data.astype(NUMPY_DTYPES[nodes[port].dtype]) for port, data in inputs.items()}


def _error(problem: Problem, pair: AtomPair, got: dict[Port, RankData], truth: dict[Port, RankData]) -> float:
    """Return the largest rms error over rms of an output on a rank; infinite if not finite."""
    worst = 0.0
    for _, _, mine, theirs in compared_values(pair.valid_outputs, got, truth, problem.ranks):
        right = theirs.astype(np.float64)
        off = _rms(mine.astype(np.float64) - right)
        worst = max(worst, off / _rms(right) if off != 0 and _rms(right) else np.inf if off != 0 else 0.0)
    return float(worst)


def _rms(data: Array) -> float:
    rms = float(np.sqrt(np.mean(np.square(data))))
    return rms if np.isfinite(rms) else np.inf
