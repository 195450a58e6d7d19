"""alltoallv: counts, what of the buffers is valid, and every known way proven at ragged counts."""

from typing import Any, get_args

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.problems import alltoallv
from overlayccl_core.program.arithmetics import Real
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Kind, Placement
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import Program
from overlayccl_core.program.rename import ports_in_order, renamed
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.known_ways import known_ways_of
from tests.known_cases import proof_of

PATTERNS = get_args(alltoallv.Pattern)
RAGGED = [[1, 4, 0, 2], [3, 0, 5, 1], [0, 0, 0, 0], [1, 1, 3, 0]]


def case_of(ranks: int = 4, ranks_per_node: int = 0, **entry: Any) -> Case:
    fields = {"width": 3, **entry}
    return catalog.case("alltoallv", fields, ranks=ranks, ranks_per_node=ranks_per_node or ranks)


def counts_of(pattern: str, ranks: int = 8, each: int = 10, seed: int = 0) -> np.ndarray:
    return alltoallv.counts_of(case_of(ranks, pattern=pattern, rows=each * ranks, seed=seed))


# ------------------------------------------------------------------------------------------------- counts
def test_the_patterns_are_what_they_are_called() -> None:
    assert (counts_of("uniform") == 10).all()
    zipf = counts_of("zipf", each=1000)
    assert (zipf.sum(1) == 8000).all()
    popular = np.sort(zipf.sum(0))[::-1] / zipf.sum()
    assert popular == pytest.approx(np.arange(1, 9) ** -1.2 / (np.arange(1, 9) ** -1.2).sum(), abs=0.01)
    skewed = counts_of("skewed")
    assert sorted(skewed[0]) == [10] * 7 + [40] and (skewed == skewed[0]).all()
    zeros = counts_of("zeros")
    assert set(zeros.ravel().tolist()) == {0, 10} and (zeros.diagonal() == 10).all()
    assert 0.2 < (zeros == 0).mean() < 0.7
    random = counts_of("random", ranks=32)
    assert (random.min(), random.max()) == (1, 20) and len(np.unique(random)) == 20
    assert counts_of("locality").tolist()[0] == [40, 20, 10, 10, 5, 10, 10, 20]
    assert counts_of("locality", ranks=16, each=1).min() == 1
    assert counts_of("increasing", ranks=4).tolist() == [[1, 7, 13, 20]] * 4


@pytest.mark.parametrize("pattern", ["zipf", "skewed", "zeros", "random"])
def test_what_is_drawn_hangs_on_the_seed_alone(pattern: str) -> None:
    assert (counts_of(pattern) == counts_of(pattern)).all()
    assert any((counts_of(pattern) != counts_of(pattern, seed=seed)).any() for seed in (1, 2, 3))


# ------------------------------------------------------------------------------------------------ meaning
def received(program: Program, send: np.ndarray) -> np.ndarray:
    held, _ = evaluate(program.outputs, {("send",): send}, Real(), program.problem.ranks)
    shape = program.problem.outputs[("received",)].shape
    return held[("received",)].on_all().reshape(-1, *shape)


def test_rows_arrive_in_the_order_of_their_sources_and_zeros_behind_them() -> None:
    problem = catalog.build(case_of(counts=RAGGED))
    spec = problem.inputs[("send",)]
    assert spec.valid == (7 * 3, 9 * 3, 0, 5 * 3)
    assert (spec.placement, spec.cotangent) == (Placement.VARYING, Placement.VARYING)
    assert problem.outputs[("received",)].valid is None
    rng = np.random.default_rng(0)
    send = rng.standard_normal((4, 9, 3)).astype(np.float32)
    wanted = np.zeros((4, 8, 3), np.float32)
    place = [0] * 4
    for source, counts in enumerate(RAGGED):
        begin = 0
        for to, count in enumerate(counts):
            wanted[to, place[to] : place[to] + count] = send[source, begin : begin + count]
            begin, place[to] = begin + count, place[to] + count
        send[source, begin:] = np.nan
    got = received(catalog.reference_program(problem), send.reshape(4, -1))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("pattern", ["uniform", "random"])
def test_the_backward_is_the_exchange_of_the_transposed_counts(pattern: str) -> None:
    case = case_of(pattern=pattern, rows=20)
    backward = catalog.backward(case)
    equal = alltoallv.equals_backward(case)
    assert backward is not None and equal is not None
    assert (alltoallv.counts_of(equal) == alltoallv.counts_of(case).T).all()
    assert (equal == case) == (pattern == "uniform")
    forward = catalog.build(equal)
    same = renamed(catalog.reference_program(forward), backward, ports_in_order(forward, backward))
    assert prove(same, catalog.reference_program(backward)).outcome is Outcome.PASS


def test_a_search_may_use_the_counts_of_fewer_ranks() -> None:
    large = case_of(16, 8, pattern="random", rows=64)
    small = catalog.proxy(large)
    assert small is not None and small.id.startswith("alltoallv/n8-r4-random-")
    kept = np.ix_([0, 1, 2, 3, 8, 9, 10, 11], [0, 1, 2, 3, 8, 9, 10, 11])
    assert (alltoallv.counts_of(small) == alltoallv.counts_of(large)[kept]).all()
    assert catalog.proxy(small) is None
    nothing = [[0] * 8 for _ in range(8)]
    nothing[7][7] = 1
    some = catalog.proxy(case_of(8, counts=nothing))
    assert some is not None and set(some["counts"]) == {1}


# -------------------------------------------------------------------------------------------------- known ways
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_known_way_is_proven_at_every_pattern(pattern: str) -> None:
    """Of any counts: tests/strategies/test_odd_shapes.py."""
    for problem in catalog.directions(case_of(4, 2, pattern=pattern, rows=12)):
        verdicts = {way.name: proof_of(problem, way.name)[1] for way in known_ways_of(problem)}
        assert {name: v.message for name, v in verdicts.items() if not v.passed} == {}
        assert len(verdicts) >= 6


@pytest.mark.parametrize(
    ("strategy", "kinds", "sizes"),
    [
        ("native", [Kind.ALL_TO_ALL], [4 * 5 * 3]),
        ("gather_slice", [Kind.ALL_GATHER], [4 * 4 * 5 * 3]),
        ("packed_gather_take", [Kind.ALL_GATHER], [4 * 9 * 3]),
        ("gather_reduce_scatter", [Kind.ALL_GATHER, Kind.REDUCE_SCATTER], [4 * 4 * 5 * 3, 4 * 5 * 3]),
        ("permute_ring", [Kind.COLLECTIVE_PERMUTE] * 3, [5 * 3] * 3),
        ("packed_permute_ring", [Kind.COLLECTIVE_PERMUTE] * 3, [5 * 3, 1 * 3, 3 * 3]),
    ],
)
def test_what_the_known_ways_send(strategy: str, kinds: list[Kind], sizes: list[int]) -> None:
    program = replay(Recipe(base=strategy), catalog.build(case_of(counts=RAGGED)))
    assert [x.kind for x in program.collectives] == kinds
    assert [x.size for x in program.collectives] == sizes


def test_a_rotation_in_which_nobody_has_rows_is_left_out() -> None:
    to_the_next = [[0, 3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2], [3, 0, 0, 0]]
    program = replay(Recipe(base="packed_permute_ring"), catalog.build(case_of(counts=to_the_next)))
    assert [x.sources for x in program.collectives] == [(3, 0, 1, 2)]


def test_a_call_has_to_bring_the_counts_of_its_rank() -> None:
    assert catalog.build(case_of(counts=RAGGED)).arguments == {"counts": tuple(map(tuple, RAGGED))}
