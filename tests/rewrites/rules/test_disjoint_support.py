"""A sum to which at most one member adds in each slot becomes a gather; nothing else does."""

import pytest

from overlayccl_core.program.kinds import DType, Kind
from tests.rewrites.rules.tried import CROSSED, kinds, payloads, refusal, rewritten, traced

RULE = "disjoint_support"
SHARES = "pad(slice_axis(x, 0, [0, 1, 2, 3], 3), 0, [0, 3, 6, 9], 12)"


@pytest.mark.parametrize(
    ("operand", "payload"),
    [
        (SHARES, 3),
        ("select(x, [False, True, False, False])", 12),
        ("pad(slice_axis(x, 0, 0, 5), 0, [0, 7, 7, 0], 12)", None),  # 0 meets 3, 1 meets 2
        ("index_select(x, [[0, -1, 1, -1], [-1, 5, -1, -1], [-1, -1, -1, -1], [-1, -1, -1, 5]])", 2),
        ("collective_permute(x, [(2, 1)])", 12),
    ],
)
def test_of_a_world(operand: str, payload: int | None) -> None:
    program = traced(f'io.write("y", all_reduce({operand}))', 4 if "index" in operand else 12)
    if payload is None:
        assert "side conditions" in refusal(RULE, program)
        return
    new = rewritten(RULE, program)
    assert kinds(new)[-1] is Kind.ALL_GATHER
    assert payloads(new)[-1] == payload


def test_members_of_different_groups_may_meet() -> None:
    operand = "pad(slice_axis(x, 0, 0, 6), 0, [0, 0, 6, 6], 12)"
    program = traced(f'io.write("y", all_reduce({operand}, "sum", {CROSSED}))', 12)
    assert payloads(rewritten(RULE, program)) == [6]
    assert "side conditions" in refusal(RULE, traced(f'io.write("y", all_reduce({operand}))', 12))


def test_one_rank_that_has_all_sends_its_value_as_it_stands() -> None:
    new = rewritten(RULE, traced('io.write("y", all_reduce(select(x, [False, False, True, False])))', 12))
    assert new.collectives[0].operands[0].kind is Kind.INPUT


def test_a_slot_of_nobody_stays_zero_and_unequal_shares_are_padded() -> None:
    table = "[[0, 1, 2, -1, -1, -1], [-1, -1, -1, 7, -1, -1], [-1] * 6, [-1] * 6]"
    program = traced(f'io.write("y", all_reduce(index_select(x, {table})))', 6)
    assert payloads(rewritten(RULE, program)) == [3]


def test_one_slot_too_much_is_refused() -> None:
    program = traced('io.write("y", all_reduce(pad(slice_axis(x, 0, 0, 4), 0, [0, 3, 6, 8], 12)))', 12)
    assert "side conditions" in refusal(RULE, program)


@pytest.mark.parametrize("zeros", ["select(x, [False] * 4)", "collective_permute(x, [])"])
def test_all_zeros_are_refused(zeros: str) -> None:
    program = traced(f'io.write("y", all_reduce({zeros}))', 12)
    depth = 1 if "select" in zeros else 2
    assert "side conditions" in refusal(RULE, program, site_class=f"all_reduce:world:{depth}")


def test_a_maximum_is_refused_since_zero_counts_in_it() -> None:
    program = traced(f'io.write("y", all_reduce({SHARES}, "max"))', 12, linear=False)
    assert "side conditions" in refusal(RULE, program)


def test_a_sum_of_views_may_be_live_anywhere() -> None:
    program = traced(f'io.write("y", all_reduce(add({SHARES}, x)))', 12)
    assert "side conditions" in refusal(RULE, program)


def test_through_casts_in_16_bits_and_with_labels() -> None:
    body = f'boundary()\nio.write("y", cast(all_reduce(cast({SHARES}, "bfloat16")), "float32"))'
    new = rewritten(RULE, traced(body, 12))
    assert [x.label.graph for x in new.collectives] == ["g1"]
    assert new.collectives[0].dtype is DType.BFLOAT16
