"""A counterexample says where, what was expected, what was got, and which operation differs first."""

import numpy as np
import pytest

from overlayccl_core.gates import counterexample
from overlayccl_core.gates.counterexample import explain, form_text, linear_form
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.program.arithmetics import PRIME, Modular, residue
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.random_programs import RANKS, drawn, random_program
from tests.small_problems import exchange, strategy

WORDS = "add, all_gather, all_reduce, collective_permute, concat, reshape, scale, select, slice_axis"
PROBLEM = exchange(4, {"x": (8,), "z": (8,)}, {"y": (8,)})


def traced(body: str) -> Program:
    return trace_source(strategy(body, WORDS), "tried", PROBLEM)


SUM = traced('io.write("y", all_reduce(io.read("x")))')


def message(body: str) -> str:
    verdict = prove(traced(body), SUM)
    assert not verdict.passed
    return verdict.message


def test_terms_that_are_missing() -> None:
    text = message('io.write("y", all_reduce(io.read("x"), "sum", [[0, 1], [2, 3]]))')
    assert text.startswith("y on rank 0, element 0:")
    assert all(part in text for part in ("expected x[0] of ranks 0..3", "got x[0] of ranks 0..1"))
    assert all(part in text for part in ("differs: all_reduce[8]", "2 groups of 2", "value 2 of 2"))


def test_a_stranger_is_followed_to_the_operation_that_brings_it_in() -> None:
    text = message(
        "x = io.read('x')\n"
        "wrong = concat([slice_axis(x, 0, 0, 5), slice_axis(x, 0, 6, 2), slice_axis(x, 0, 5, 1)])\n"
        'io.write("y", all_reduce(wrong))'
    )
    assert text.startswith("y on rank 0, element 5:")
    assert all(part in text for part in ("x[5] of", "got x[6] of", "differs: view[8]", "taking in x"))


def test_a_wrong_factor() -> None:
    text = message('io.write("y", scale(all_reduce(io.read("x")), 1, 4))')
    assert all(part in text for part in ("expected x[0] of", "got 1/4 x[0] of", "scale[8]"))


def test_an_input_that_is_written_as_it_is() -> None:
    text = message("io.write('y', io.read('x'))")
    assert all(part in text for part in ("got x[0] of rank 0;", "input x is", "collective is missing"))
    text = prove(traced("io.write('y', io.read('z'))"), traced("io.write('y', io.read('x'))")).message
    assert "got z[0] of rank 0; input z is" in text and "collective" not in text


def test_zeros_where_something_was_wanted() -> None:
    text = message('io.write("y", select(all_reduce(io.read("x")), [1, 1, 0, 1]))')
    assert text.startswith("y on rank 2, element 0:")
    assert all(part in text for part in ("expected x[0] of", "got 0;", "differs: view"))


def test_the_element_is_that_of_the_full_size_program() -> None:
    """One wrong element in 2^20: found over atoms, named at full size."""
    wide = exchange(4, {"x": (2**20,)}, {"y": (2**20,)})
    body = """
x = all_reduce(io.read("x"))
parts = [slice_axis(x, 0, 0, 777777), slice_axis(x, 0, 0, 1), slice_axis(x, 0, 777778, 270798)]
io.write("y", concat(parts))
"""
    program = trace_source(strategy(body, WORDS), "tried", wide)
    reference = trace_source(strategy('io.write("y", all_reduce(io.read("x")))', WORDS), "tried", wide)
    verdict = prove(program, reference)
    assert all(part in verdict.message for part in ("element 777777:", "x[777777] of", "got x[0]"))


@pytest.mark.parametrize("seed", range(30))
def test_a_linear_form_gives_the_value(seed: int) -> None:
    """Put random residues into the form of every element: what the evaluation gives."""
    program = random_program(seed)
    random = np.random.default_rng(seed)
    inputs = drawn(program.problem, program.outputs, draw=lambda shape: random.integers(0, PRIME, shape))
    held, _ = evaluate(program.outputs, inputs, Modular(), RANKS)
    for port, x in program.outputs.items():
        for rank in range(RANKS):
            for index in range(0, x.size, 3):
                form = linear_form(x, rank, index)
                terms = (residue(f) * int(inputs[p][max(r, 0), i]) for (p, r, i), f in form.items())
                assert sum(terms) % PRIME == held[port].on(rank)[index]


def test_too_many_terms_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterexample, "MAX_TERMS", 3)
    text = explain(SUM, SUM, ("y",), 1, 2)
    assert text.startswith("y on rank 1, element 2 ") and "more than 3 terms" in text


def test_long_forms_are_cut_short_in_print() -> None:
    form = {(("x", i), 0, i): 1 for i in range(6)}
    assert form_text(form).endswith(" of rank 0 + ... (6 in all)") and "+ x[3][3]" in form_text(form)
    assert form_text({(("e",), -1, 2): 3}) == "3 e[2] of all ranks alike"
