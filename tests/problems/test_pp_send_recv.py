"""pp_send_recv: stages, schedules, and every known way proven."""

from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.problems import pp_send_recv
from overlayccl_core.program.arithmetics import Real
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import BOUNDARY, Program, Read
from overlayccl_core.program.segments import RunSegment, walk
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.known_ways import known_way_rows, known_ways_of
from tests.known_cases import proof_of
from tests.stages.test_known_ways import WITHOUT_EXCHANGE

SCHEDULES = ["gpipe", "1f1b"]


def case_of(ranks: int = 4, ranks_per_node: int = 0, **entry: Any) -> Case:
    fields = {"microbatches": 4, "shape": [1, 3, 5], **entry}
    return catalog.case("pp_send_recv", fields, ranks=ranks, ranks_per_node=ranks_per_node or ranks)


def way(name: str, **entry: Any) -> Program:
    return replay(Recipe(base=name), catalog.build(case_of(**entry)))


def ran(program: Program) -> list[str]:
    """The model's segments as a step runs them: first_forward0, second0, ..."""
    return [f"{e.segment.name[0]}{e.segment.name[1]}" for _, e in walk(program) if isinstance(e, RunSegment)]


def test_activations_are_there_on_the_first_half_and_gradients_on_the_second() -> None:
    problem = catalog.build(case_of())
    first, second = (15, 15, 0, 0), (0, 0, 15, 15)
    assert {p[0]: s.valid for p, s in problem.inputs.items()} == {"a": first, "ga": second}
    assert {p[0]: s.valid for p, s in problem.outputs.items()} == {"b": second, "gb": first}
    assert catalog.backward(problem.case) is None
    assert problem.case.id == "pp_send_recv/n4-m4-60B-gpipe-f32"
    assert pp_send_recv.payload_bytes(problem.case) == 4 * 60


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_pair_hands_over_and_back(schedule: str) -> None:
    program = catalog.reference_program(catalog.build(case_of(microbatches=2, schedule=schedule)))
    random = np.random.default_rng(0)
    inputs = {p: random.standard_normal((4, 15)).astype(np.float32) for p in program.problem.inputs}
    held, _ = evaluate(program.outputs, inputs, Real(), 4)
    for m in range(2):
        np.testing.assert_array_equal(held[("b", m)].on_all()[2:], inputs[("a", m)][:2])
        np.testing.assert_array_equal(held[("gb", m)].on_all()[:2], inputs[("ga", m)][2:])


# ----------------------------------------------------------------------------------------------- schedules
def test_gpipe_has_all_microbatches_under_way_and_1f1b_two() -> None:
    forward = [f"first_forward{m}" for m in range(4)]
    back = [f"{name}{m}" for m in range(4) for name in ("second", "first_backward")]
    assert sorted(ran(way("merged_all_reduce"))) == sorted(forward + back)
    assert ran(way("merged_all_reduce"))[:4] == forward
    assert ran(way("send_receive", schedule="1f1b")) == [
        *("first_forward0", "second0", "first_forward1", "second1"),
        *("first_backward0", "first_forward2", "second2"),
        *("first_backward1", "first_forward3", "second3"),
        *("first_backward2", "first_backward3"),
    ]


def test_all_activations_at_once_are_refused_where_two_microbatches_are_held() -> None:
    verdict = legality.check(way("merged_all_reduce", schedule="1f1b"))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.ORDER)
    assert all(part in verdict.message for part in ("a[2]", "first_backward[0]", "gb[0]"))
    assert legality.check(way("merged_all_reduce", schedule="1f1b", microbatches=2)).passed


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("microbatches", [1, 2, 3, 6])
def test_every_other_known_way_is_legal_under_both_schedules(schedule: str, microbatches: int) -> None:
    problem = catalog.build(case_of(schedule=schedule, microbatches=microbatches))
    legal = {s.name: legality.check(replay(s.recipe, problem)).passed for s in known_ways_of(problem)}
    refused = {"merged_all_reduce"} if schedule == "1f1b" and microbatches > 2 else set()
    assert {name for name, passed in legal.items() if not passed} == refused


# --------------------------------------------------------------------------------------------------- known ways
def proven(case: Case) -> None:
    problem = catalog.build(case)
    verdicts = {s.name: proof_of(problem, s.name)[1] for s in known_ways_of(problem)}
    assert {name: v.message for name, v in verdicts.items() if not v.passed} == {}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(2, 1), (4, 2), (6, 3), (32, 32)])
def test_every_known_way_is_proven(schedule: str, ranks: int, ranks_per_node: int) -> None:
    proven(case_of(ranks, ranks_per_node, schedule=schedule))


@pytest.mark.parametrize(
    ("strategy", "calls", "elements"),
    [
        ("send_receive", [Kind.COLLECTIVE_PERMUTE] * 8, 15),
        ("masked_all_reduce", [Kind.ALL_REDUCE] * 8, 2 * 15),
        ("merged_all_reduce", [Kind.ALL_REDUCE] * 2, 2 * 4 * 15),
        ("gather_take", [Kind.ALL_GATHER] * 8, 4 * 15),
        ("pair_all_reduce", [Kind.ALL_REDUCE] * 8, 15),
        ("pair_gather", [Kind.ALL_GATHER] * 8, 2 * 15),
        ("both_ways_at_once", [Kind.COLLECTIVE_PERMUTE] * 5, 15),
    ],
)
def test_what_the_known_ways_send(strategy: str, calls: list[Kind], elements: int) -> None:
    program = way(strategy)
    assert [x.kind for x in program.collectives] == calls
    assert {x.size for x in program.collectives} == {elements}
    assert program.events.count(BOUNDARY) == (8 if strategy == "masked_all_reduce" else 0)


def test_pairs_are_the_groups_of_pairwise_calls() -> None:
    for strategy in ("pair_all_reduce", "pair_gather"):
        assert {x.groups.members for x in way(strategy).collectives} == {((0, 2), (1, 3))}


def test_the_developer_sends_where_the_library_can_and_sums_elsewhere() -> None:
    problem = catalog.build(case_of())
    roles = [
        {r["role"]: r["strategy"] for r in known_way_rows(problem, can, None)}
        for can in (None, WITHOUT_EXCHANGE)
    ]
    assert [found["developer"] for found in roles] == ["send_receive", "masked_all_reduce"]


def test_the_reads_of_1f1b_take_turns() -> None:
    reads = [e.port for e in way("both_ways_at_once", schedule="1f1b").events if isinstance(e, Read)]
    assert reads[:5] == [("a", 0), ("a", 1), ("ga", 0), ("a", 2), ("ga", 1)]
