"""A reduction that is read in part becomes a reduce_scatter of the parts."""

import pytest

from overlayccl_core.program.kinds import Kind, Reduction
from tests.rewrites.rules.tried import CROSSED, kinds, payloads, refusal, rewritten, traced

RULE = "scatter_what_is_read"


@pytest.mark.parametrize(
    ("read", "size", "payload"),
    [
        ("slice_axis(all_reduce(x), 0, [0, 3, 6, 9], 3)", 3, 12),
        ("slice_axis(all_reduce(x), 0, [9, 6, 3, 0], 3)", 3, 12),
        ("slice_axis(all_reduce(x), 0, [0, 0, 5, 11], 1)", 1, 4),
        ("index_select(all_reduce(x), [[7, 7, -1], [-1] * 3, [1, 0, 1], [2, 11, 11]])", 3, 8),
        ("slice_axis(all_reduce(x), 0, 4, 2)", 2, 8),  # all the same: a sum of parts
    ],
)
def test_of_a_world(read: str, size: int, payload: int) -> None:
    new = rewritten(RULE, traced(f'io.write("y", {read})', size))
    assert (kinds(new), payloads(new)) == ([Kind.REDUCE_SCATTER], [payload])


def test_in_member_order_the_parts_need_no_packing() -> None:
    new = rewritten(RULE, traced('io.write("y", slice_axis(all_reduce(x), 0, [0, 3, 6, 9], 3))', 3))
    assert new.collectives[0].operands[0].kind is Kind.INPUT
    assert new.outputs[("y",)].kind is Kind.REDUCE_SCATTER


@pytest.mark.parametrize("groups", [CROSSED, ((3, 0), (2, 1))])
def test_of_groups_that_read_different_parts(groups: tuple[tuple[int, ...], ...]) -> None:
    body = f'io.write("y", slice_axis(all_reduce(x, "sum", {groups}), 0, [0, 5, 2, 6], 6))'
    new = rewritten(RULE, traced(body, 6))
    assert (kinds(new), payloads(new)) == ([Kind.REDUCE_SCATTER], [12])


def test_a_maximum_of_negative_values_stays_a_maximum() -> None:
    body = 'io.write("y", slice_axis(all_reduce(x, "max"), 0, [0, 3, 5, 9], 2))'
    new = rewritten(RULE, traced(body, 2, linear=False))
    assert new.collectives[0].attr.reduction is Reduction.MAX


@pytest.mark.parametrize(
    "body",
    [
        'io.write("y", slice_axis(all_reduce(x), 0, [0, 3, 6, 8], 4))',  # 4 ranks times 4 of 12
        'io.write("y", all_reduce(x))',
        'io.write("y", cast(cast(all_reduce(x), "bfloat16"), "float32"))',
    ],
)
def test_too_much_or_all_is_refused(body: str) -> None:
    assert "side conditions" in refusal(RULE, traced(body, 4 if "slice" in body else 12))


def test_what_two_views_read_counts_once_and_an_output_counts_as_all() -> None:
    two = (
        "z = all_reduce(x)\n"
        'io.write("y", slice_axis(z, 0, [0, 3, 6, 9], 2))\n'
        'io.write("z", slice_axis(z, 0, [1, 4, 7, 10], 2))'
    )
    assert payloads(rewritten(RULE, traced(two, {"y": 2, "z": 2}))) == [12]
    out = 'z = all_reduce(x)\nio.write("y", slice_axis(z, 0, [0, 3, 6, 9], 2))\nio.write("z", z)'
    assert "side conditions" in refusal(RULE, traced(out, {"y": 2, "z": 12}))
