"""What ranks gave against what the Program means: others than right values are named, by the bound of the class."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.on_ranks import _unlike, inputs_of, wrong_values
from overlayccl_core.gates.small_values import itself
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.numerics import LOSSY_TOLERANCE, REORDERED_TOLERANCE, NumericsClass, tolerance
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.on_ranks import meaning
from tests.small_problems import exchange, strategy

OUT = ("y",)


def traced(body: str) -> Program:
    words = "all_reduce, collective_permute"
    return trace_source(
        strategy(f'io.write("y", {body})', words), "tried", exchange(4, {"x": (64,)}, {"y": (64,)})
    )


SUM = traced('all_reduce(io.read("x"))')
NEXT = 'collective_permute(io.read("x"), ((0, 1), (1, 2), (2, 3), (3, 0)))'
MOVE = traced(NEXT)


def judged(program: Program, change: Any, numerics: NumericsClass = NumericsClass.EXACT) -> str:
    inputs = inputs_of(program.problem, 3)
    outputs = meaning(program, inputs)
    return wrong_values(itself(program), tolerance(numerics, program), inputs, change(outputs))


def scaled(by: float) -> Any:
    return lambda outputs: {port: x * (1 + by) for port, x in outputs.items()}


def test_what_is_moved_must_be_the_same_and_what_is_summed_within_the_bound_of_its_class() -> None:
    assert tolerance(NumericsClass.EXACT, MOVE) == 0
    assert (
        tolerance(NumericsClass.EXACT, SUM) == tolerance(NumericsClass.REORDERED, SUM) == REORDERED_TOLERANCE
    )
    assert tolerance(NumericsClass.LOSSY, SUM) == LOSSY_TOLERANCE
    narrow = exchange(4, {"x": (64,)}, {"y": (64,)}, dtype=DType.FLOAT64)
    body = strategy(
        'io.write("y", cast(all_reduce(cast(io.read("x"), "float32")), "float64"))', "all_reduce, cast"
    )
    assert tolerance(NumericsClass.REORDERED, trace_source(body, "tried", narrow)) == LOSSY_TOLERANCE
    assert judged(MOVE, scaled(0)) == judged(SUM, scaled(5e-6)) == ""
    assert re.search(r"5e-06 .*allowed: 0,", judged(MOVE, scaled(5e-6)))
    assert re.search(r"2e-05 .*allowed: 1e-05,", judged(SUM, scaled(2e-5)))
    assert judged(SUM, scaled(2e-5), NumericsClass.LOSSY) == ""


def put(rank: int, element: int, value: Any) -> Any:
    """A change of one element; `value` may be a function of it."""

    def change(outputs: dict[Any, Any]) -> dict[Any, Any]:
        outputs[OUT][rank, element] = value(outputs[OUT][rank, element]) if callable(value) else value
        return outputs

    return change


def nudged(rank: int, element: int) -> Any:
    return put(rank, element, lambda x: np.nextafter(np.float32(x), np.float32(9)))


def replicated(valid: tuple[int, ...] | None = None) -> Program:
    whole = exchange(4, {"x": (64,)}, {"y": (64,)}, equal=("y",))
    outputs = {p: replace(s, valid=valid) for p, s in whole.outputs.items()}
    body = strategy('io.write("y", all_reduce(io.read("x")))')
    return trace_source(body, "tried", replace(whole, outputs=outputs))


def test_what_is_replicated_has_the_same_bits_where_it_is_valid() -> None:
    assert judged(replicated(), scaled(0)) == judged(SUM, nudged(2, 5)) == ""
    assert re.search(r"y .*ranks 0 and 2, .* 5\b", judged(replicated(), nudged(2, 5)))
    some = replicated((3, 64, 0, 64))
    assert judged(some, nudged(0, 3)) == judged(some, nudged(2, 0)) == ""
    assert re.search(r"ranks 1 and 0, .* 2\b", judged(some, nudged(0, 2)))
    assert re.search(r"ranks 1 and 3, .* 63\b", judged(some, nudged(3, 63)))
    either_sign = np.ones((4, 64), np.float32)
    either_sign[:, 5] = (0.0, -0.0, 0.0, 0.0)
    said = _unlike(itself(replicated()), OUT, either_sign)
    assert all(part in said for part in ("ranks 0 and 1", "element 5", "0.0 and -0.0"))


def test_copies_that_no_rank_sent_are_told_by_their_digests() -> None:
    inputs = inputs_of(SUM.problem, 3)
    outputs, bits = meaning(SUM, inputs), {OUT: [1, 1, 2, 1]}
    said = wrong_values(itself(replicated()), 1e-5, inputs, outputs, bits=bits)
    assert "bits differ between ranks 0 and 2" in said
    assert wrong_values(itself(SUM), 1e-5, inputs, outputs, bits=bits) == ""


def test_inputs_are_nan_behind_what_is_valid_and_outputs_are_not_looked_at_there() -> None:
    problem = exchange(4, {"x": (64,)}, {"y": (64,)})
    valid = (64, 5, 0, 63)
    passed_on = replace(
        problem,
        inputs={p: replace(s, valid=valid) for p, s in problem.inputs.items()},
        outputs={p: replace(s, valid=(63, 64, 5, 0)) for p, s in problem.outputs.items()},
    )
    program = trace_source(strategy(f'io.write("y", {NEXT})', "collective_permute"), "tried", passed_on)
    inputs = inputs_of(passed_on, 3)
    assert (~np.isnan(inputs[("x",)])).sum(1).tolist() == list(valid)
    outputs = meaning(program, inputs)
    assert wrong_values(itself(program), 0, inputs, outputs) == ""
    outputs[OUT][2, 5:] = outputs[OUT][3] = 7
    assert wrong_values(itself(program), 0, inputs, outputs) == ""
    outputs[OUT][2, 4] = 7
    assert "on rank 2" in wrong_values(itself(program), 0, inputs, outputs)


@pytest.mark.parametrize("value", [np.nan, np.inf, 7.0])
def test_one_wrong_element_on_one_rank_is_found_and_named(value: float) -> None:
    said = judged(SUM, put(2, 5, value))
    assert "output y on rank 2" in said and "element 5: expected" in said and f"got {value:g}" in said


def test_an_output_that_is_not_written_or_of_another_size_is_wrong() -> None:
    assert "output y is not written" in judged(SUM, lambda _outputs: {})
    assert "in its size" in judged(SUM, lambda outputs: {OUT: outputs[OUT][:, :5]})


def test_ranks_and_elements_differ_in_what_they_are_given() -> None:
    [x] = inputs_of(SUM.problem, 0).values()
    assert x.shape == (4, 64) and len(np.unique(x)) == x.size and x.dtype == np.float32


def test_ids_meet_the_ends_of_every_part() -> None:
    entry = {"tokens": 64, "vocabulary": 40}
    problem = catalog.build(catalog.case("dist_ce", entry, ranks=4, ranks_per_node=4))
    ids = inputs_of(problem, 0)["targets",]
    assert {0, 9, 10, 19, 20, 29, 30, 39} < set(ids[0].tolist()) < set(range(40))
    assert (ids == ids[0]).all()


def test_words_that_no_id_names_are_padding() -> None:
    """So that a product with 0 in the place of a mask is found on ranks, too."""
    problem = catalog.build(
        catalog.case("dist_ce", {"tokens": 6, "vocabulary": 40}, ranks=4, ranks_per_node=4)
    )
    inputs = inputs_of(problem, 0)
    padding = np.isneginf(inputs["logits",].reshape(4, 6, 10)).transpose(1, 0, 2).reshape(6, 40)
    assert 10 < padding[0].sum() < 20 and (padding == padding[0]).all()
    assert not padding[:, inputs["targets",][0]].any()


@pytest.mark.parametrize("numerics", [NumericsClass.REORDERED, NumericsClass.LOSSY])
def test_one_wrong_element_among_many_is_found_whatever_the_class(numerics: NumericsClass) -> None:
    """Of all together it is less than a lossy Program may be off."""
    many = exchange(4, {"x": (2**16,)}, {"y": (2**16,)})
    program = trace_source(strategy('io.write("y", all_reduce(io.read("x")))'), "tried", many)

    assert judged(program, scaled(0), numerics) == ""
    assert "on rank 1 is off by" in (said := judged(program, put(1, 4242, 9), numerics))
    assert "element 4242: " in said
