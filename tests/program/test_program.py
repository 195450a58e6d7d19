"""A Program and a Problem check their own parts."""

from dataclasses import replace

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import DType, Rejected
from overlayccl_core.program.nodes import make_cast, make_scale
from overlayccl_core.program.problem import PortSpec, Segment
from overlayccl_core.program.program import Program, Read, Write
from overlayccl_core.rewrites.apply import apply
from tests.known_cases import case
from tests.small_problems import exchange, layers

PROBLEM = exchange(4, {"a": (4,)}, {"y": (4,)})
A = PROBLEM.input_node(("a",))
READ, WRITE = Read(("a",)), Write(("y",), A)


def test_events_that_are_a_program() -> None:
    assert Program(PROBLEM, [READ, WRITE]).outputs == {("y",): A}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([WRITE], "uses a before it is read"),
        ([READ], "y is never written"),
        ([READ, READ, WRITE], "a is read twice"),
        ([READ, WRITE, WRITE], "y is written twice"),
        ([Read(("b",)), WRITE], "no input b: there are a"),
        ([READ, Write(("z",), A)], "no output z: there are y"),
        ([READ, Write(("y",), make_cast(A, DType.BFLOAT16))], "y: .*bfloat16, .*float32"),
    ],
)
def test_events_that_are_no_program(events: list, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        Program(PROBLEM, events)


def test_digests_tell_programs_of_different_cases_apart() -> None:
    other = replace(PROBLEM, case=replace(PROBLEM.case, name="other"))
    assert Program(PROBLEM, [READ, WRITE]).digest != Program(other, [READ, WRITE]).digest
    doubled = Write(("y",), make_scale(A, 2))
    assert Program(PROBLEM, [READ, doubled]).value_digest != Program(PROBLEM, [READ, WRITE]).value_digest


def test_a_problem_refuses_segments_of_unknown_ports() -> None:
    for segment, message in [
        (Segment(name=("s",), needs=(("q",),)), "which is no output"),
        (Segment(name=("s",), gives=(("q",),)), "must be an input that one segment gives"),
        (Segment(name=("s",), after=(("q",),)), "comes after unknown"),
    ]:
        with pytest.raises(ValueError, match=message):
            replace(PROBLEM, segments=(segment,))
    with pytest.raises(ValueError, match="names must differ"):
        replace(PROBLEM, segments=(Segment(name=("s",)), Segment(name=("s",))))
    with pytest.raises(ValueError, match="at least one axis"):
        PortSpec(shape=())


def test_an_unknown_input_names_those_there_are() -> None:
    with pytest.raises(Rejected, match=r"\[9, 9\]: did .*6 in all"):
        layers(4, 3, 2, (4,)).input_node(("partial", 9, 9))


def test_labels_with_equal_events_run_alike_unless_the_model_may_work_before_a_wait() -> None:
    def programs(site: str, microbatches: int) -> list[Program]:
        entry = {"microbatches": microbatches, "layers": 2, "shape": [1, 2, 3], "site": site}
        sums = catalog.reference_program(catalog.build(case("tp_mlp", entry)))
        knobs = (("early_issue", ""), ("in_flight", "2"), ("in_flight", "4"))
        return [sums, *(apply(sums, (rule, "all_reduce:world:1", knob)) for rule, knob in knobs)]

    written, early, two, four = programs("exit", 2)
    assert two.run_digest == four.run_digest and two.digest != four.digest
    assert len({p.run_digest for p in (written, early, two)}) == 3
    written, early, two, four = programs("entry", 1)
    assert early.run_digest == two.run_digest == four.run_digest != written.run_digest
