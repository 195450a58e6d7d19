"""Which orders are legal: a strategy of one's own that gives, needs or joins what is not there yet is refused."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Problem, Segment
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.known_cases import case
from tests.small_problems import traced

FSDP = {"microbatches": 3, "layers": 4, "shape": [8, 6]}
FULL = 8 * 6 * 4  # bytes of a layer


def problem_of(name: str, entry: Mapping[str, Any] | None = None) -> Problem:
    return catalog.build(case(name, entry))


def known(problem: Problem, way: str) -> Program:
    return trace_source(catalog.library_source(problem.case.problem), way, problem)


def refused_for_order(verdict: Verdict, *named: str) -> None:
    assert verdict.reason is Reason.ORDER
    assert all(name in verdict.message for name in named)


def test_the_parts_of_two_blocks_are_not_joined() -> None:
    """A block's sum with the next block's: that block has not run."""
    body = """
for m in range(p.microbatches):
    blocks = [add(io.read("partial", m, layer, 0), io.read("partial", m, layer, 1)) for layer in range(2)]
    totals = split(all_reduce(concat([flatten(x) for x in blocks])), 2)
    for layer in range(2):
        io.write("total", m, layer, reshape(totals[layer], p.shape))
"""
    tried = traced(body, problem_of("layer_block_ar"))
    refused_for_order(legality.check(tried), "block[0, 1]", "total[0, 0]")


def test_values_may_come_before_keys_but_both_must_come() -> None:
    problem = problem_of("ring_kv")
    body = """
for slot in reversed(range(p.slots)):
    io.write("full", slot, all_gather(io.read("shard", slot), 1))
"""
    assert legality.check(traced(body, problem)).passed
    with pytest.raises(Rejected, match=r"full\[1\] is never"):
        traced('io.write("full", 0, all_gather(io.read("shard", 0), 1))', problem)


def test_a_step_that_gives_the_values_after_attention_has_read_the_keys_is_refused() -> None:
    """The Problem's two slots are given together; one whose values need the keys first admits no joint gather."""
    problem = problem_of("ring_kv")
    in_turn = replace(
        problem,
        segments=(
            Segment(name=("keys",), gives=(("shard", 0),)),
            Segment(name=("values",), needs=(("full", 0),), gives=(("shard", 1),)),
            Segment(name=("attention",), needs=(("full", 1),)),
        ),
    )
    refused_for_order(legality.check(known(in_turn, "joined")), "segment values", "full[0]")
    assert legality.check(known(problem, "joined")).passed


def test_nothing_orders_what_is_there_from_the_start_but_memory() -> None:
    """Parameters given from the last layer to the first: all shards exist, and all wait for the first block."""
    body = """
for layer in reversed(p.layer_order):
    full = all_gather(io.read("shard", layer), p.shard_axis)
    for m in range(p.microbatches):
        io.write("full", m, layer, full)
"""
    problem = problem_of("fsdp_prefetch", FSDP)
    program = traced(body, problem)
    verdict = legality.check(program)
    assert verdict.passed and verdict["peak_bytes"] == 4 * FULL
    refused = legality.check(program, memory_budget_bytes=3 * FULL)
    assert refused.reason is Reason.MEMORY and "merge less" in refused.message
    assert legality.check(known(problem, "in_lockstep"), memory_budget_bytes=3 * FULL).passed
