"""What stands for a large Program on ranks: right outputs pass whatever the Problem, a wrong element does not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.backends.trials import observed
from overlayccl_core.gates import small_values
from overlayccl_core.gates.on_ranks import small_inputs, wrong_values
from overlayccl_core.gates.small_values import Small, over_atoms, small_of
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.known_cases import programs
from tests.on_ranks import meaning
from tests.small_problems import exchange, strategy

LINEAR = [name for name in loader.names("problems") if name not in ("dist_ce", "attention")]


def of_problem(name: str) -> list[Program]:
    case = catalog.case(name, catalog.plug_in(name).examples(4)["small"], ranks=4, ranks_per_node=2)
    return [
        program
        for problem in catalog.directions(case)
        for program in programs(problem, derived=False).values()
    ]


def on_ranks(program: Program, small: Small, change: Any = None) -> str:
    """What is wrong with what ranks would tell, the Program's outputs changed by `change` before."""
    inputs = small_inputs(small, 1)
    sent = small.told(inputs)
    large = {p: np.stack(list(map(small.input_tiles[p].spread, x))) for p, x in sent.items()}
    outputs = meaning(program, large)
    if change is not None:
        change(outputs)
    seen = observed(outputs, small.output_tiles)
    allowed = tolerance(NumericsClass.EXACT, program)
    copies = (seen.outputs, seen.farthest)
    return "".join(wrong_values(small, allowed, inputs, copy, bits=seen.bits) for copy in copies)


@pytest.mark.parametrize("name", LINEAR)
def test_right_outputs_pass_and_a_wrong_element_of_any_output_does_not(name: str) -> None:
    random = np.random.default_rng(0)
    for program in of_problem(name):
        small = over_atoms(program, most_lanes=3)
        assert on_ranks(program, small) == ""
        for port in program.problem.outputs:
            valid = program.problem.outputs[port].valid

            def wrong(outputs: Any, port: Any = port, valid: Any = valid) -> None:
                rank = int(np.argmax(valid)) if valid else int(random.integers(4))
                outputs[port] = outputs[port].copy()
                element = random.integers(valid[rank] if valid else outputs[port].shape[1])
                outputs[port][rank, element] += 3

            assert "wrong values: output" in on_ranks(program, small, wrong), port


def moved(body: str, size: int = 640) -> Program:
    words = "all_reduce, collective_permute"
    return trace_source(
        strategy(f'io.write("y", {body})', words), "tried", exchange(4, {"x": (size,)}, {"y": (size,)})
    )


SUM = moved('all_reduce(io.read("x"))')


@pytest.mark.parametrize("by", [1, 2, 32, 64, 256])
def test_elements_that_are_moved_inside_an_atom_are_found(by: int) -> None:
    small = over_atoms(SUM, most_lanes=16)
    assert [tiles.atoms for tiles in small.input_tiles.values()] == [1]

    def shifted(outputs: Any) -> None:
        outputs["y",] = np.roll(outputs["y",], by, axis=1)

    assert "wrong values" in on_ranks(SUM, small, shifted)


def test_other_bits_on_one_rank_are_found_where_an_output_is_replicated() -> None:
    replicated = exchange(4, {"x": (640,)}, {"y": (640,)}, equal=("y",))
    program = trace_source(strategy('io.write("y", all_reduce(io.read("x")))'), "tried", replicated)

    def nudged(outputs: Any) -> None:
        outputs["y",] = outputs["y",].copy()
        outputs["y",][2, 77] = np.nextafter(outputs["y",][2, 77], np.float32(99))

    small = over_atoms(program, most_lanes=5)
    assert on_ranks(program, small) == ""
    assert "differ between ranks 0 and 2" in on_ranks(program, small, nudged)


def test_few_values_and_what_is_not_linear_are_tried_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not small_of(SUM).input_tiles
    monkeypatch.setattr(small_values, "MOST_WORDS", 100)
    assert small_of(SUM).input_tiles
    entries = catalog.case(
        "dist_ce", catalog.plug_in("dist_ce").examples(4)["small"], ranks=4, ranks_per_node=4
    )
    assert not small_of(catalog.developer_program(catalog.build(entries))).input_tiles
    monkeypatch.setattr(small_values, "MOST_WORDS", 3)
    with pytest.raises(TooLarge, match="values of 4 atoms"):
        small_of(SUM)


def test_what_is_worked_out_does_not_grow_with_the_sizes() -> None:
    case = catalog.case(
        "grad_ar", catalog.plug_in("grad_ar").examples(224)["train"], ranks=224, ranks_per_node=32
    )
    program = catalog.developer_program(catalog.build(replace(case)))
    small = small_of(program)
    assert sum(small.inputs.values()) * 224 <= small_values.MOST_WORDS
    assert sum(tiles.large for tiles in small.input_tiles.values()) > 2**26
    inputs = small_inputs(small, 0)
    assert {x.dtype for x in inputs.values()} == {np.dtype(np.float32)}
