"""Equivalence of nonlinear Programs: compare values with the reference's at full size, on the Problem's data.

exp has no meaning modulo a prime, and a smaller size does not stand for the Case. So the Program itself is
evaluated on all ranks:

1. In float64, every output element is within 1e-9 of the reference's, relative to the larger of its size and 1 (for
   a gradient: and the size of its cotangent). Outputs saved for the backward are compared by their use: every
   element of the gradients computed from them by the reference of the backward. Any backward must accept them, as
   forward and backward are chosen separately.
2. In its own dtypes, against the same float64 values, it is within the tolerance of its class
   (program/numerics.py).
3. Replicated outputs have the same bits on all ranks.

The data is hostile where the Problem has such data (logits of 1000, of -inf). Parts with the same computation
(alike.py) share the trials; a part with its own computation meets all kinds of data itself. The Program may give
anything in place of a NaN of the reference, and only there. Unlike the linear proof, this evidence holds for the
tried data and for similar data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from overlayccl_core.gates.alike import alike
from overlayccl_core.gates.draws import compared
from overlayccl_core.gates.parts import joined_wrongly
from overlayccl_core.gates.replicas import unlike_replicas
from overlayccl_core.gates.verdict import Checks, ProofCheck, Reason, Wrong
from overlayccl_core.program.arithmetics import Arithmetic, Array, Double, Real
from overlayccl_core.program.atoms import AtomPair
from overlayccl_core.program.facts import value_numbers
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.meaning import RankData, evaluate
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.numerics import NONLINEAR_TOLERANCE, REORDERED_TOLERANCE, NumericsClass, loses
from overlayccl_core.program.problem import Draw, PortSpec, Problem, port_text
from overlayccl_core.program.program import Program
from overlayccl_core.program.substitution import without_labels
from overlayccl_core.program.tracing import trace_function

Inputs = Mapping[Port, Array]

SMALLEST = 1e-30  # replaces 0 as a divisor


@dataclass(slots=True, kw_only=True)
class Tried:
    """Largest error, and bytes of the largest evaluation, over all draws."""

    error: float = 0.0  # of an element in the Program's dtypes, over the larger of its size and 1
    peak_bytes: int = 0


def try_values(program: Program, reference: Program, checks: Checks, lossy_bound: float) -> Tried:
    """Compare a nonlinear Program with the reference on all draws of the reference's Problem.

    Raises:
        Wrong: A check failed; the message names the element.
    """
    tried = Tried()
    brought = reference.problem.nonlinear
    assert brought is not None
    random = np.random.default_rng(int(program.digest, 16))
    treated = alike(program, brought, random) if brought.named else None
    backward = _backward_of(reference.problem)
    hostile = ProofCheck.HOSTILE in checks
    for draw in brought.draws(random, hostile, treated):
        inputs = {**draw.inputs, **_cotangents(program, backward, draw.inputs, random)}
        trial = _Trial(program=program, reference=reference, backward=backward, draw=draw, inputs=inputs)
        trial.run(tried, checks, lossy_bound)
    if hostile and brought.parts and (joined := joined_wrongly(program, brought, random)):
        raise Wrong(Reason.PARTS_JOINED, joined)
    if ProofCheck.REPLICAS in checks and not _provably_alike(program):
        pair = AtomPair.of(program.problem, program.outputs, reference.outputs)
        if unlike := unlike_replicas(pair, program):
            raise Wrong(Reason.RANKS_DIFFER, unlike)
    return tried


def class_of_numerics(program: Program, reference: Program) -> NumericsClass:
    """Return the class of a nonlinear Program, by its graph."""
    if without_labels(program.outputs) == without_labels(reference.outputs):
        return NumericsClass.EXACT
    return NumericsClass.LOSSY if loses(program.outputs.values()) else NumericsClass.REORDERED


def _provably_alike(program: Program) -> bool:
    """Tell whether each replicated output is one value on all ranks, for any inputs."""
    ranks, specs = program.problem.ranks, program.problem.outputs
    replicated = [x for port, x in program.outputs.items() if specs[port].placement is Placement.REPLICATE]
    return all(len(np.unique(value_numbers(x, ranks))) == 1 for x in replicated)


def _cotangents(
    program: Program, backward: Program | None, given: Inputs, random: np.random.Generator
) -> Inputs:
    """Draw cotangents of the outputs for the backward, as alike on the ranks as they are: a loss has one."""
    if backward is None:
        return {}
    some = next(x for x in given.values() if x.dtype.kind != "i")
    return {
        port: random.standard_normal(
            (1 if spec.placement is Placement.REPLICATE else program.problem.ranks, spec.size)
        ).astype(some.dtype)
        for port, spec in backward.problem.inputs.items()
        if port not in given and port not in program.problem.outputs
    }


@dataclass(slots=True, kw_only=True)
class _Trial:
    """Program and reference on one draw.

    Attributes:
        right: In float64, by the reference: what is saved, and the gradients made of it.
        saved: Of the last evaluation.
    """

    program: Program
    reference: Program
    backward: Program | None
    draw: Draw
    inputs: Inputs
    right: tuple[dict[Port, Array], dict[Port, RankData]] = field(default_factory=lambda: ({}, {}))
    saved: dict[Port, Array] = field(default_factory=dict)
    peak_bytes: int = 0

    @property
    def specs(self) -> Mapping[Port, PortSpec]:
        """The outputs, and the gradients made of the saved ones."""
        back = {} if self.backward is None else self.backward.problem.outputs
        return {**back, **self.program.problem.outputs}

    def run(self, tried: Tried, checks: Checks, lossy_bound: float) -> None:
        """Compare in float64, then in the Program's own dtypes."""
        doubled = {p: x.astype(np.float64) if x.dtype.kind != "i" else x for p, x in self.inputs.items()}
        with np.errstate(all="ignore"):  # an overflow shows up as a non-finite element
            want = self._evaluate(self.reference, doubled, Double())
            if ProofCheck.VALUES in checks:
                got = self._evaluate(self.program, doubled, Double())
                self._compare(got, want, NONLINEAR_TOLERANCE, Reason.WRONG_VALUE, "in float64")
                brought = self.reference.problem.nonlinear
                if brought and brought.wrong_saved and (wrong := brought.wrong_saved(doubled, self.saved)):
                    raise Wrong(Reason.WRONG_VALUE, wrong)
            if ProofCheck.NUMERICS in checks:
                got = self._evaluate(self.program, self.inputs, Real())
                bound = lossy_bound if loses(self.program.outputs.values()) else REORDERED_TOLERANCE
                error = self._compare(got, want, bound, Reason.INACCURATE, "in its own dtypes")
                tried.error = max(tried.error, error)
        tried.peak_bytes = max(tried.peak_bytes, self.peak_bytes)

    def _evaluate(self, program: Program, inputs: Inputs, arithmetic: Arithmetic) -> dict[Port, RankData]:
        """Evaluate the outputs, with gradients in place of saved ones."""
        ranks = program.problem.ranks
        held, peak = evaluate(program.outputs, inputs, arithmetic, ranks)
        if self.backward is not None:
            read = [p for p in program.problem.outputs if p in self.backward.problem.inputs]
            saved = {p: held[p].on_all() for p in read}
            self.saved = saved
            held = {p: x for p, x in held.items() if not program.problem.outputs[p].saved}
            known, gradients = self.right
            if not known or any(not _same(known[p], x) for p, x in saved.items()):
                gradients, more = evaluate(self.backward.outputs, {**inputs, **saved}, arithmetic, ranks)
                peak = max(peak, more)
            if program is self.reference:
                self.right = saved, gradients
            held |= gradients
        self.peak_bytes = max(self.peak_bytes, peak + sum(x.nbytes for x in inputs.values()))
        return held

    def _compare(
        self, got: dict[Port, RankData], want: dict[Port, RankData], bound: float, reason: Reason, how: str
    ) -> float:
        """Return the largest error of an element; raise Wrong if one exceeds the bound."""
        largest = 0.0
        for port, b in want.items():
            a = got[port]
            if a is b:
                continue
            spec = self.specs[port]
            ranks = self.program.problem.ranks
            given = np.maximum(self.draw.sizes.get(port, np.ones(1)), SMALLEST)
            of_ranks = np.broadcast_to(given, (ranks, spec.size))
            for rank, part in compared(spec.valid, a.row, b.row, ranks=ranks):
                sizes = of_ranks[rank][part]
                off = _off(a.on(rank)[part], b.on(rank)[part], sizes)
                worst = int(off.argmax())
                if not off[worst] <= bound:
                    which = "" if port in self.program.outputs else ", the gradient made of what is saved"
                    label = self.draw.label(port, worst)
                    raise Wrong(
                        reason,
                        f"{port_text(port)}{which}, on rank {rank}, element {worst}, {label}:"
                        f" expected {b.on(rank)[worst]:.10g}, got {a.on(rank)[worst]:.10g} {how}"
                        f" (may be off by {bound:g} of its size, or of {sizes[worst]:g})",
                    )
                largest = max(largest, float(off[worst]))
        return largest


def _backward_of(problem: Problem) -> Program | None:
    """Trace the reference of the backward, a reader of the saved outputs; None without a backward."""
    brought = problem.nonlinear
    if brought is None or brought.backward is None or brought.backward_reference is None:
        return None
    return trace_function(brought.backward_reference, brought.backward)


def _same(x: Array, y: Array) -> bool:
    return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=True)


def _off(got: Array, want: Array, sizes: Array) -> Array:
    """Return |got - want| over the larger of |want| and sizes; 0 if equal or want is NaN; inf if not finite."""
    got, want = got.astype(np.float64, copy=False), want.astype(np.float64, copy=False)
    off: Array = np.abs(got - want)
    off /= np.maximum(np.abs(want), sizes)
    if not np.isfinite(off).all():
        right = (got == want) | np.isnan(want)
        off = np.where(right, 0.0, np.where(np.isfinite(off), off, np.inf))
    return off
