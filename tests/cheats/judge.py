"""Judging one source by all gates, and showing that it is the named checks that stop a cheat."""

from typing import Any

from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import ALL_CHECKS, Checks, ProofCheck, Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.tracing import trace_source


def judge(
    source: str,
    function: str,
    problem: Problem,
    checks: Checks = ALL_CHECKS,
    *,
    capabilities: Capabilities | None = None,
    memory_budget_bytes: int | None = None,
) -> Verdict:
    """The first verdict that is not pass, else the proof against the function `reference` of the same source."""
    reference = trace_source(source, "reference", problem)
    try:
        program = trace_source(source, function, problem)
    except Rejected as error:
        return Verdict(
            gate=Gate.LEGALITY, outcome=Outcome.FAIL, reason=Reason.NOT_IN_LANGUAGE, message=str(error)
        )
    verdict = legality.check(program, capabilities, memory_budget_bytes, checks)
    return prove(program, reference, checks) if verdict.passed else verdict


def assert_stopped(
    source: str,
    function: str,
    problem: Problem,
    reason: Reason,
    *by: ProofCheck,
    **limits: Any,
) -> None:
    """Rejected for `reason`; accepted without the checks `by`, and rejected by each one of them alone."""

    def judged(checks: Checks) -> Verdict:
        return judge(source, function, problem, checks, **limits)

    verdict = judged(ALL_CHECKS)
    assert not verdict.passed and verdict.reason is reason, verdict
    without = judged(ALL_CHECKS - set(by))
    assert without.passed, without
    for check in by:
        assert not judged(ALL_CHECKS - (set(by) - {check})).passed, f"{check} alone does not stop it"
