"""Fewer bytes on the wire, in exact arithmetic the same."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.program.kinds import DType, Reduction
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import RuleNumerics, rule
from tests.known_cases import case
from tests.rewrites.rules.tried import refusal, rewritten, traced

RULE, KNOB = "wire_dtype", "bfloat16"


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ("all_reduce(x)", 12),
        ("reduce_scatter(x, 0, ((0, 3), (1, 2)))", 6),
        ("all_gather(x)", 48),
        ("all_to_all(x)", 12),
        ("collective_permute(x, [(0, 1), (2, 3)])", 12),
    ],
)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_every_collective_can_be_narrow(expression: str, size: int, dtype: DType) -> None:
    program = traced(f'boundary()\nio.write("y", {expression})', size, dtype=dtype)
    new = rewritten(RULE, program, KNOB)
    (x,) = new.collectives
    assert (x.dtype, x.label.graph) == (DType.BFLOAT16, "g1")
    assert (x.kind, x.attr) == (program.collectives[0].kind, program.collectives[0].attr)
    assert new.outputs[("y",)].dtype is dtype


def test_it_is_lossy_and_says_so() -> None:
    program = traced('io.write("y", all_reduce(x))', 12)
    verdict = prove(rewritten(RULE, program, KNOB), program)
    assert dict(verdict.evidence)["numerics"] == "lossy"
    assert rule(RULE).NUMERICS is RuleNumerics.LOSSY


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_16_bits_are_refused(dtype: DType) -> None:
    program = traced('io.write("y", all_gather(x))', 48, dtype=dtype)
    assert "side conditions" in refusal(RULE, program, KNOB)


@pytest.mark.parametrize("knob", ["", "float16", "int8"])
def test_other_types_are_refused_by_name(knob: str) -> None:
    assert f"no type {knob!r}" in refusal(RULE, traced('io.write("y", all_gather(x))', 48), knob)


def test_a_second_time_is_refused() -> None:
    once = rewritten(RULE, traced('io.write("y", all_gather(x))', 48), KNOB)
    assert "side conditions" in refusal(RULE, once, KNOB)


def test_a_maximum_stays_a_maximum() -> None:
    program = traced('io.write("y", all_reduce(x, "max"))', 12, linear=False)
    (x,) = rewritten(RULE, program, KNOB).collectives
    assert x.attr.reduction is Reduction.MAX


def test_it_makes_the_known_strategy() -> None:
    at = catalog.build(case("tp_mlp"))
    steps = ((RULE, "all_reduce:world:1", KNOB),)
    new = replay(Recipe(base="merged_over_microbatches", steps=steps), at)
    assert new.value_digest == replay(Recipe(base="bf16_on_the_wire"), at).value_digest
