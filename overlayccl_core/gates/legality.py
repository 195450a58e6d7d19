"""Legality: may this Program run at all? Order, linearity, capabilities, memory; no ranks, no data."""

from functools import partial

from overlayccl_core.deployments.capabilities import Capabilities, Capability, shape_text
from overlayccl_core.gates.verdict import ALL_CHECKS, Checks, ProofCheck, Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program import arithmetics
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import OPERATIONS
from overlayccl_core.program.segments import IllegalOrder, walk


def check(
    program: Program,
    capabilities: Capabilities | None = None,
    memory_budget_bytes: int | None = None,
    checks: Checks = ALL_CHECKS,
) -> Verdict:
    """Check order, linearity, library calls and memory.

    Args:
        capabilities: Calls supported by the library; None: any.
        memory_budget_bytes: Most that a rank may hold; None: no limit.

    Returns:
        Pass, or the first broken rule. Evidence: collectives (calls of the library), peak_bytes.
    """
    if ProofCheck.ORDER in checks:
        try:
            walk(program)
        except IllegalOrder as error:
            return _fails(Reason.ORDER, str(error))
    if ProofCheck.LINEAR in checks and (wrong := nonlinear_operation(program, program.problem)):
        return _fails(Reason.NOT_LINEAR, wrong)
    known = capabilities if ProofCheck.CAPABILITIES in checks else None
    if known and (refused := known.first_refused(program)):
        return _fails(Reason.UNSUPPORTED, _unsupported(refused))
    return _within_memory(program, memory_budget_bytes, checks)


def nonlinear_operation(program: Program, problem: Problem) -> str:
    """Describe an operation in a Program that its Problem does not admit; empty: there is none."""
    if not problem.linear and problem.nonlinear is None:  # read from a file
        return ""
    admitted = problem.nonlinear.operations if problem.nonlinear else frozenset()
    for x in program.nodes:
        wrong = arithmetics.not_linear(x)
        if not wrong:
            continue
        if problem.linear:
            return f"{wrong}, and {problem.name} admits linear operations only: use sums"
        name = "maximum" if arithmetics.is_max(x) else x.row.name
        if name not in admitted and not OPERATIONS[name].linear:
            return (
                f"{wrong}, and {problem.name} admits no other than {', '.join(sorted(admitted))}: use these"
            )
    return ""


def _unsupported(refused: Capability) -> str:
    call = refused.call
    return (
        f"{call.operation} of {call.payload_bytes} bytes {call.dtype.value} in groups of"
        f" {shape_text(call.shape)} is not supported here ({refused.evidence}): use another collective"
    )


def _within_memory(program: Program, budget: int | None, checks: Checks) -> Verdict:
    try:
        peak = peak_bytes(program)
    except IllegalOrder:  # only if ORDER is not checked: it cannot run
        peak = 0
    if ProofCheck.MEMORY in checks and budget is not None and peak > budget:
        return _fails(
            Reason.MEMORY,
            f"needs {peak} bytes a rank at its peak, the budget is {budget}: gather or merge less at once",
            peak_bytes=peak,
        )
    return Verdict.of(Gate.LEGALITY, Outcome.PASS, collectives=len(program.calls), peak_bytes=peak)


_fails = partial(Verdict.of, Gate.LEGALITY, Outcome.FAIL)
