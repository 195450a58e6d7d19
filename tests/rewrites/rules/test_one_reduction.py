"""Adding up first, then reducing once."""

import pytest

from tests.rewrites.rules.tried import payloads, refusal, rewritten, traced

RULE = "one_reduction"
SUM = "all_reduce:world:1"


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
    "written as well": (f'io.write("z", all_reduce(x))\nio.write("y", {BOTH})', {"y": 12, "z": 12}),
    "read as well": (f'io.write("z", all_gather(all_reduce(x)))\nio.write("y", {BOTH})', {"y": 12, "z": 48}),
    "scaled, written as well": (
        f'io.write("z", scale(all_reduce(x), 3))\nio.write("y", {BOTH})',
        {"y": 12, "z": 12},
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
