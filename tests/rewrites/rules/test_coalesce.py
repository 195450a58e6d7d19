"""Collectives that become one call: each keeps its value, and what must not be one call is not."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rules import coalesce
from tests.known_cases import case
from tests.rewrites.rules.tried import refusal, rewritten, traced

RULE = "coalesce"
SUM = "all_reduce:world:1"


def calls(program: Program) -> list[int]:
    """Values of each call."""
    return [len(call) for call in program.calls]


def summed(one: str, other: str) -> Program:
    body = f"u = {one}\nv = {other}\n"
    return traced(f'{body}io.write("y", u)\nio.write("z", v)', {"y": 4, "z": 8})


def test_nothing_is_joined_but_the_call() -> None:
    program = summed("all_reduce(slice_axis(x, 0, 0, 4))", "all_reduce(slice_axis(x, 0, 2, 8))")
    new = rewritten(RULE, program, "all")
    assert calls(program) == [1, 1] and calls(new) == [2]
    assert [x.operands[0] for x in new.collectives] == [x.operands[0] for x in program.collectives]


@pytest.mark.parametrize(
    "other",
    [
        "all_gather(slice_axis(x, 0, 2, 2))",
        'all_reduce(slice_axis(x, 0, 2, 8), "sum", ((0, 1), (2, 3)))',
        'cast(all_reduce(cast(slice_axis(x, 0, 2, 8), "bfloat16")), "float32")',
        "all_reduce(pad(all_reduce(slice_axis(x, 0, 0, 4)), 0, 0, 8))",
    ],
)
def test_what_is_not_alike_is_left_alone(other: str) -> None:
    program = summed("all_reduce(slice_axis(x, 0, 0, 4))", other)
    assert "nothing would change" in refusal(RULE, program, "all", SUM)


def test_what_is_a_call_stays_one() -> None:
    program = summed(
        "all_reduce([slice_axis(x, 0, 0, 4), slice_axis(x, 0, 4, 4)])[0]", "slice_axis(x, 0, 0, 8)"
    )
    assert "none of these" in refusal(RULE, program, "all", SUM)


def test_a_buffer_is_taken_apart_and_scales_stay() -> None:
    program = traced('io.write("y", all_reduce(concat([x, scale(e, 2)])))', 24)
    new = rewritten(RULE, program, "all")
    assert calls(new) == [2] and {y.kind.value for x in new.collectives for y in x.operands} == {"input"}


def test_a_buffer_of_less_than_it_is_made_of_stays() -> None:
    program = traced(
        'io.write("y", all_reduce(concat([slice_axis(x, 0, 0, 4), slice_axis(e, 0, 0, 8)])))', 12
    )
    assert "nothing would change" in refusal(RULE, program, "all")


def test_a_bucket_of_values_leaves_no_layout() -> None:
    problem = catalog.directions(case("grad_ar"))[0]
    program = apply(replay(Recipe(base="flat"), problem), (RULE, SUM, "all"))
    assert program.value_digest == replay(Recipe(base="coalesced"), problem).value_digest


@pytest.mark.parametrize("operand", ["slice_axis(x, 0, [0, 1, 2, 3], 8)", "slice_axis(x, 0, 0, 8)"])
def test_one_value_stays(operand: str) -> None:
    assert "nothing would change" in refusal(RULE, traced(f'io.write("y", all_reduce({operand}))', 8), "all")


def test_calls_are_filled_up_to_their_cap_as_the_model_gives_their_values() -> None:
    mib = 1048576 // 4
    problem = catalog.directions(case("grad_ar", {"sizes": [n * mib for n in (12, 10, 30, 20)]}))[0]
    program = replay(Recipe(base="one_by_one"), problem)
    assert calls(apply(program, (RULE, SUM, "25MiB"))) == [2, 1, 1]
    assert calls(apply(program, (RULE, SUM, "64MiB"))) == [3, 1]
    assert coalesce.knobs(program, program.collectives) == ("all", "25MiB", "64MiB")


@pytest.mark.parametrize("problem", ["tp_mlp", "layer_block_ar", "grad_ar"])
def test_it_is_legal_where_layers_wait_for_each_other(problem: str) -> None:
    at = catalog.directions(case(problem))[0]
    program = replay(Recipe(base="one_by_one" if problem == "grad_ar" else "developer"), at)
    for name in ("drop_boundary", RULE):
        for site_class in sorted({f"all_reduce:world:{x.depth}" for x in program.collectives}):
            try:
                program = apply(program, (name, site_class, "all" if name == RULE else ""))
            except ValueError:
                assert name == "drop_boundary"
    assert legality.check(program).passed
    assert max(calls(program)) > 1
