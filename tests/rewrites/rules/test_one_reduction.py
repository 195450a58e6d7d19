"""Adding up first, then reducing once."""

import pytest

from tests.rewrites.rules.tried import PAIRS, payloads, refusal, rewritten, traced

RULE = "one_reduction"
SUM = "all_reduce:world:1"


@pytest.mark.parametrize(
    "expression",
    [
        "add(all_reduce(x), all_reduce(e))",
        "add(scale(all_reduce(x), 1, 2), scale(all_reduce(e), 3))",
        "add(add(all_reduce(x), all_reduce(e)), all_reduce(scale(collective_permute(x, [(0, 1)]), 2)))",
        "concat([slice_axis(add(all_reduce(x), all_reduce(e)), 0, 4, 8), slice_axis(e, 0, 0, 4)])",
    ],
)
def test_sums_of_reductions_are_reduced_once(expression: str) -> None:
    program = traced(f'io.write("y", {expression})', 12)
    new = rewritten(RULE, program, "", SUM)
    assert len(new.collectives) < len(program.collectives)


def test_blocks_of_one_reduction_are_added_first() -> None:
    program = traced('io.write("y", reduce_sum(reshape(all_reduce(x), (3, 4)), 0))', 4)
    assert payloads(rewritten(RULE, program)) == [4]


def test_under_one_layout_for_all_ranks() -> None:
    a = "index_select(all_reduce(x), [3, 1, 0, 2])"
    body = f'io.write("y", add({a}, slice_axis(all_reduce(e), 0, 2, 4)))'
    assert payloads(rewritten(RULE, traced(body, 4))) == [4]


SCATTERED = "reduce_scatter:world:1"


@pytest.mark.parametrize(
    ("expression", "size", "payload"),
    [
        ("add(reduce_scatter(x), reduce_scatter(e))", 3, 12),
        ("add(scale(reduce_scatter(x), 1, 2), scale(reduce_scatter(e), 3))", 3, 12),
        ("reduce_sum(reshape(reduce_scatter(x), (3, 1)), 0)", 1, 4),
        ("add(slice_axis(reduce_scatter(x), 0, 0, 2), slice_axis(reduce_scatter(e), 0, 1, 2))", 2, 8),
        (
            "add(index_select(reduce_scatter(x), [2, 1, 0]), index_select(reduce_scatter(e), [1, 0, 2]))",
            3,
            12,
        ),
    ],
    ids=["two", "under ratios", "blocks of one", "parts of each", "under one layout"],
)
def test_what_is_scattered_is_added_block_by_block_before(expression: str, size: int, payload: int) -> None:
    new = rewritten(RULE, traced(f'io.write("y", {expression})', size), "", SCATTERED)
    assert payloads(new) == [payload]


NEXT_TO = """
r = {reduction}(x)
io.write("y", reduce_sum(reshape(slice_axis(r, 0, 0, {two}), (2, {one})), 0))
io.write("z", reduce_sum(reshape(slice_axis(r, 0, {one}, {two}), (2, {one})), 0))
"""


@pytest.mark.parametrize(
    ("reduction", "one", "payload"),
    [("all_reduce", 4, 8), ("reduce_scatter", 1, 8)],
    ids=["all", "scattered"],
)
def test_several_sums_of_parts_of_one_reduction_are_reduced_together(
    reduction: str, one: int, payload: int
) -> None:
    program = traced(NEXT_TO.format(reduction=reduction, one=one, two=2 * one), {"y": one, "z": one})
    assert payloads(rewritten(RULE, program)) == [payload]


BOTH = "add(all_reduce(x), all_reduce(e))"
LOOKS_LIKE_IT = {
    "a layout per rank": (
        "a = slice_axis(all_reduce(x), 0, [0, 1, 2, 3], 4)\n"
        'io.write("y", add(a, slice_axis(all_reduce(e), 0, 0, 4)))',
        {"y": 4},
    ),
    "not only reductions": ('io.write("y", add(all_reduce(x), e))', {"y": 12}),
    "read beside the sum, where it stands alone": (
        'a = index_select(all_reduce(x), [3, 1, -1, 2])\nio.write("y", add(a, slice_axis(all_reduce(e), 0, 2, 4)))',
        {"y": 4},
    ),
    "no sum": ('io.write("y", concat([all_reduce(x), all_reduce(e)]))', {"y": 24}),
    "written as well": (f'io.write("z", all_reduce(x))\nio.write("y", {BOTH})', {"y": 12, "z": 12}),
    "read as well": (f'io.write("z", all_gather(all_reduce(x)))\nio.write("y", {BOTH})', {"y": 12, "z": 48}),
    "scaled, written as well": (
        f'io.write("z", scale(all_reduce(x), 3))\nio.write("y", {BOTH})',
        {"y": 12, "z": 12},
    ),
    "larger than its parts": (
        "a = broadcast(slice_axis(all_reduce(slice_axis(x, 0, 0, 2)), 0, 0, 1), 0, 4)\n"
        "b = broadcast(slice_axis(all_reduce(slice_axis(e, 0, 0, 1)), 0, 0, 1), 0, 4)"
        '\nio.write("y", reshape(add(a, b), (4,)))',
        {"y": 4},
    ),
    "several that are as large as what they add up": (
        NEXT_TO.format(reduction="all_reduce", one=4, two=8)
        + 'io.write("w", add(slice_axis(r, 0, 0, 4), slice_axis(r, 0, 8, 4)))',
        {"y": 4, "z": 4, "w": 4},
    ),
    "several, one of their reductions written as well": (
        NEXT_TO.format(reduction="all_reduce", one=4, two=8) + 'io.write("w", r)',
        {"y": 4, "z": 4, "w": 12},
    ),
    "of two graphs": (
        'a = all_reduce(x)\nboundary()\nio.write("y", add(a, all_reduce(e)))',
        {"y": 12},
    ),
}


@pytest.mark.parametrize("name", LOOKS_LIKE_IT)
def test_what_only_looks_like_it_is_refused(name: str) -> None:
    assert "side conditions" in refusal(RULE, traced(*LOOKS_LIKE_IT[name]), "", SUM)


def test_other_groups_and_maxima_stay_apart() -> None:
    pairs = f'io.write("y", add(all_reduce(x, "sum", {PAIRS}), all_reduce(e)))'
    assert "side conditions" in refusal(RULE, traced(pairs, 12), "", SUM)
    most = 'io.write("y", add(all_reduce(x, "max"), all_reduce(e, "max")))'
    assert "side conditions" in refusal(RULE, traced(most, 12, linear=False), "", SUM)
