"""Legality: each rule, its message and its evidence."""

import pytest

from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates.legality import check
from overlayccl_core.gates.verdict import ALL_CHECKS, ProofCheck, Reason
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.capabilities import tried
from tests.small_problems import exchange, layers, strategy

PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)})


def traced(body: str, words: str = "all_reduce", problem: Problem = PROBLEM) -> Program:
    return trace_source(strategy(body, words), "tried", problem)


SUM = traced('io.write("y", all_reduce(io.read("x")))')


def table(payload_bytes: int, supported: bool) -> Capabilities:
    return Capabilities([tried("all_reduce", payload_bytes=payload_bytes, supported=supported)])


def test_a_legal_program_passes_with_its_evidence() -> None:
    verdict = check(SUM, table(32, True), 32)
    assert verdict.passed
    assert (verdict["collectives"], verdict["peak_bytes"]) == (1, 32)


def test_without_a_table_and_a_budget_anything_is_supported_and_fits() -> None:
    assert check(SUM).passed


def test_what_the_library_cannot_do_is_named_with_size_group_and_evidence() -> None:
    verdict = check(SUM, table(16, False))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.UNSUPPORTED)
    parts = ("all_reduce of 32 bytes", "float32", "groups of 4", "failed at 16")
    assert all(part in verdict.message for part in parts)


def test_memory_over_budget_names_both_numbers() -> None:
    verdict = check(SUM, None, 31)
    assert (verdict.reason, verdict["peak_bytes"]) == (Reason.MEMORY, 32)
    assert "32 bytes" in verdict.message
    assert "31" in verdict.message


def test_bundling_across_a_dependency_names_segment_and_output() -> None:
    body = """
values = [io.read("partial", 0, layer) for layer in range(2)]
for layer in range(2):
    io.write("total", 0, layer, all_reduce(values[layer]))
"""
    program = traced(body, problem=layers(4, 1, 2, (2, 2)))
    verdict = check(program)
    assert verdict.reason is Reason.ORDER
    assert "block[0, 1]" in verdict.message and "total[0, 0]" in verdict.message
    assert check(program, checks=ALL_CHECKS - {ProofCheck.ORDER}).passed


@pytest.mark.parametrize("linear", [True, False])
def test_a_maximum_is_for_problems_that_are_not_linear(linear: bool) -> None:
    problem = exchange(4, {"x": (8,)}, {"y": (8,)}, linear=linear)
    verdict = check(traced('io.write("y", all_reduce(io.read("x"), "max"))', problem=problem))
    assert verdict.passed is not linear
    assert linear == (verdict.reason is Reason.NOT_LINEAR)
