"""What everybody computes of what was gathered, each computes of its own part."""

from dataclasses import replace

import pytest

from overlayccl_core.program.kinds import Kind, Reduction
from overlayccl_core.program.rowwise import OPERATIONS
from tests.rewrites.rules.tried import CROSSED, kinds, payloads, refusal, rewritten, traced

RULE = "push_through_gather"


@pytest.mark.parametrize("groups", [((0, 1, 2, 3),), CROSSED])
def test_a_sum_of_blocks_of_a_layout_is_reduced(groups: tuple[tuple[int, ...], ...]) -> None:
    g = len(groups[0])
    turned = f"permute_dims(reshape(all_gather(x, 0, {groups}), ({g}, 3, 4)), (1, 0, 2))"
    new = rewritten(RULE, traced(f'io.write("y", reduce_sum(reshape({turned}, ({3 * g}, 4)), 0))', 4))
    assert (kinds(new), payloads(new)) == ([Kind.ALL_REDUCE], [4])


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("reduce_sum(reshape(slice_axis(all_gather(x), 0, [0, 4, 8, 12], 8), (2, 4)), 0)", 4),
        (f"reduce_sum(reshape(index_select(all_gather(x), {[0, 0, *range(2, 48)]}), (4, 12)), 0)", 12),
        ("reduce_sum(reshape(all_gather(x, 0, [[0], [1], [2], [3]]), (3, 4)), 0)", 4),
        ("all_gather(x)", 48),
    ],
    ids=["a layout by rank", "an element twice", "groups of one rank", "nothing computed"],
)
def test_what_cannot_be_computed_before_stays(call: str, size: int) -> None:
    assert "side conditions" in refusal(RULE, traced(f'io.write("y", {call})', size))


def test_rows_are_reduced_in_parts_by_the_reduction_of_their_operation_and_not_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = traced('io.write("y", reduce_max(reshape(all_gather(x), (4, 12)), 0))', 12, linear=False)
    [collective] = [x for x in rewritten(RULE, program).nodes if x.kind is Kind.ALL_REDUCE]
    assert collective.attr.reduction is Reduction.MAX
    monkeypatch.setitem(OPERATIONS, "row_max", replace(OPERATIONS["row_max"], reduction=None))
    assert "side conditions" in refusal(RULE, program)
