"""Members with provably equal values stop talking; all others keep talking."""

import pytest

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import DType, Kind
from tests.rewrites.rules.tried import PAIRS, kinds, refusal, rewritten, traced

RULE = "equal_copies"


@pytest.mark.parametrize(
    ("expression", "size"),
    [
        ("all_reduce(e)", 12),
        ("reduce_scatter(e)", 3),
        ("all_gather(e)", 48),
        ("all_to_all(e)", 12),
        (f"all_reduce(e, 'sum', {PAIRS})", 12),
        ("all_gather(slice_axis(e, 0, [0, 4, 2, 7], 3))", 12),
        ("all_to_all(slice_axis(scale(e, 3), 0, [0, 1, 2, 3], 4))", 4),
        ("all_to_all(index_select(e, [[0, -1, 5, 5], [1, 2, 3, 4], [9, 9, 9, -1], [-1, 0, 1, 2]]))", 4),
    ],
)
def test_copies_are_laid_out_without_a_collective(expression: str, size: int) -> None:
    assert rewritten(RULE, traced(f'io.write("y", {expression})', size)).collectives == []


def test_a_sum_within_pairs_is_a_copy_within_pairs_only() -> None:
    inner = f'z = all_reduce(x, "sum", {PAIRS})\n'
    again = traced(f'{inner}io.write("y", all_reduce(z, "sum", {PAIRS}))', 12)
    assert kinds(rewritten(RULE, again, site_class="all_reduce:node:2")) == [Kind.ALL_REDUCE]
    other = traced(f'{inner}io.write("y", all_reduce(z, "sum", ((0, 2), (1, 3))))', 12)
    assert "side conditions" in refusal(RULE, other, site_class="all_reduce:across:2")


def test_the_maximum_of_copies_is_the_copy_itself() -> None:
    program = traced('io.write("y", all_reduce(e, "max"))', 12, linear=False)
    new = rewritten(RULE, program)
    assert new.collectives == []
    assert new.outputs[("y",)].kind is Kind.INPUT


@pytest.mark.parametrize(
    "expression",
    [
        "all_reduce(x)",
        "all_reduce(add(x, e))",
        "all_reduce(select(e, [True, True, False, True]))",
        "all_reduce(collective_permute(e, [(0, 1), (1, 2), (2, 3)]))",
    ],
)
def test_values_that_differ_are_refused(expression: str) -> None:
    assert "side conditions" in refusal(RULE, traced(f'io.write("y", {expression})', 12))


def test_only_the_sites_with_copies_change() -> None:
    program = traced('io.write("y", all_reduce(e))\nio.write("z", all_reduce(x))', {"y": 12, "z": 12})
    assert kinds(rewritten(RULE, program)) == [Kind.ALL_REDUCE]


def test_copies_in_16_bits_and_behind_a_cast() -> None:
    body = 'io.write("y", cast(all_gather(cast(e, "float16")), "float32"))'
    assert rewritten(RULE, traced(body, 48)).collectives == []
    narrow = traced('io.write("y", all_reduce(e))', 12, dtype=DType.BFLOAT16)
    assert rewritten(RULE, narrow).collectives == []


def test_a_layout_that_would_be_too_ragged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = traced('io.write("y", all_gather(slice_axis(e, 0, [0, 4, 2, 6], 2)))', 8)
    monkeypatch.setattr(maps, "MAX_RUNS", 3)
    assert "side conditions" in refusal(RULE, program)
