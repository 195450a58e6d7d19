"""The comparison of what is not linear: its known ways, its evidence, its budget at the size of a real cluster."""

import re
import tracemalloc
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import lossy_bound_of, prove
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.program.numerics import LOSSY_TOLERANCE, REORDERED_TOLERANCE
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.stages.known_ways import known_ways_of
from tests.known_cases import programs
from tests.small_problems import strategy

MIB = 1024


def problem(
    direction: Direction, ranks: int, tokens: int, words: int, dtype: str = "float32", **more: Any
) -> Problem:
    entry = {"tokens": tokens, "vocabulary": words * ranks, **more}
    return catalog.in_direction(
        catalog.case("dist_ce", entry, ranks=ranks, ranks_per_node=ranks, dtype=dtype), direction
    )


def proofs(at: Problem, *, lossy_bound: float = LOSSY_TOLERANCE) -> dict[str, Verdict]:
    reference = catalog.reference_program(at)
    return {
        name: prove(program, reference, lossy_bound=lossy_bound)
        for name, program in programs(at, derived=False).items()
    }


def test_some_known_ways_need_a_range() -> None:
    without, within = (
        set(programs(problem(Direction.FORWARD, 4, 8, 9, **more), derived=False))
        for more in ({}, {"range": 40})
    )
    assert {"three_all_reduce", "gather_logits", "max_then_stacked"} <= without < within
    only_within = within - without
    assert "no_max_two" in only_within
    assert all(name == "no_max_two" or name.endswith("_without_a_maximum") for name in only_within)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(
    ("ranks", "tokens", "words", "dtype", "more"),
    [(2, 1, 1, "float32", {"range": 40}), (4, 64, 9, "float64", {})],
)
def test_all_known_ways_are_proven_in_both_directions(
    direction: Direction, ranks: int, tokens: int, words: int, dtype: str, more: dict[str, int]
) -> None:
    for name, verdict in proofs(problem(direction, ranks, tokens, words, dtype, **more)).items():
        assert verdict.passed, (name, verdict.message)
        assert verdict["method"] == "values" and verdict["components"] == 1
        assert 0 <= float(verdict["error"]) < REORDERED_TOLERANCE


def test_sixteen_bits_are_held_to_what_the_developer_does_in_them() -> None:
    at = problem(Direction.FORWARD, 4, 64, 9, "bfloat16")
    developer = replay(known_ways_of(at)[0].recipe, at)
    bound = lossy_bound_of(developer, catalog.reference_program(at))
    for name, verdict in proofs(at, lossy_bound=bound).items():
        assert verdict.passed, (name, verdict.message)
        assert verdict["numerics"] in ("lossy", "exact")


def test_a_message_names_rank_element_and_kind_of_data() -> None:
    at = problem(Direction.FORWARD, 4, 64, 9)
    reference = catalog.reference_program(at)
    body = """
x = io.read("logits")
io.read("targets")
s = log(all_reduce(reduce_sum(exp(x), 1)))
io.write("losses", s)
io.write("mean", scale(reduce_sum(s, 0), 1, p.tokens))
io.write("shift", s)
io.write("log_sum", s)
"""
    words = "all_reduce, exp, log, reduce_sum, scale"
    verdict = prove(trace_source(strategy(body, words), "tried", at), reference)
    assert verdict.reason is Reason.WRONG_VALUE and verdict["numerics"] == "reordered"
    assert re.match(r"losses, .*rank 0, .* \d+, .* logit .*expected .* in float", verdict.message)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_proof_fits_its_budget_at_224_ranks(direction: Direction) -> None:
    """T = 256, V = 224 * 144: 66 MB a value in float64. What a proof says that it took is what it took."""
    at = problem(direction, 224, 256, 144, range=40)
    program, reference = catalog.developer_program(at), catalog.reference_program(at)
    tracemalloc.start()
    verdict = prove(program, reference)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.passed, verdict.message
    assert max(peak, int(verdict["peak_bytes"])) < MIB * 2**20
