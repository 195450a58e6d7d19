"""A layout that sends zeros or the same element twice is laid out on arrival instead."""

import pytest

from overlayccl_core.program.kinds import DType
from tests.rewrites.rules.tried import CROSSED, payloads, refusal, rewritten, traced

RULE = "packed_layout"


@pytest.mark.parametrize(
    ("expression", "size", "payload"),
    [
        ("all_gather(pad(x, 0, 2, 16))", 64, 12),
        ("all_gather(pad(x, 0, [0, 1, 2, 3], 16))", 64, 12),
        ("all_gather(broadcast(x, 0, 3))", 144, 12),
        ("all_gather(select(pad(x, 0, 0, 20), [True, False, True, True]))", 80, 12),
        ("all_gather(pad(slice_axis(x, 0, [0, 4, 1, 2], 5), 0, 1, 9))", 36, 5),
        ("all_gather(index_select(x, [[0, 0, 1], [5, 4, 5], [-1, -1, 2], [7, -1, 7]]))", 12, 2),
        (f"all_gather(pad(x, 0, [0, 1, 2, 3], 16), 0, {CROSSED})", 32, 12),
        ("all_gather(pad(x, 0, [0, 1, 2, 3], 16), 0, ((1, 0), (2, 3)))", 32, 12),
        ("all_to_all(broadcast(slice_axis(x, 0, 0, 2), 0, 12))", 24, 8),
        ("all_to_all(index_select(x, [0, 1, 1, 0, -1, -1, 3, -1]))", 8, None),  # two of two are sent to one
        ("all_to_all(index_select(x, [0, 0, 1, 1, -1, -1, 3, -1]))", 8, 4),
        ("all_to_all(index_select(x, [[0, -1, 1, 1], [2, 2, 3, 3], [-1] * 4, [4, 4, 4, -1]]))", 4, None),
        (
            f"all_to_all(index_select(x, [[0, -1, 1, 1], [2] * 4, [-1] * 4, [4, 4, 4, -1]]), 0, {CROSSED})",
            4,
            2,
        ),
        ("all_gather(concat([x, e, x]))", 144, 24),
    ],
)
def test_less_is_sent(expression: str, size: int, payload: int | None) -> None:
    program = traced(f'io.write("y", reshape({expression}, ({size},)))', size)
    if payload is None:
        assert "side conditions" in refusal(RULE, program)
    else:
        assert payloads(rewritten(RULE, program)) == [payload]


@pytest.mark.parametrize(
    "expression",
    [
        "all_gather(x)",  # no view
        "all_gather(index_select(x, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]))",  # nothing repeats
        "all_gather(select(x, [True, False, True, True]))",  # some rank fills the block
        "all_gather(add(x, x))",
    ],
)
def test_where_nothing_is_gained_it_is_refused(expression: str) -> None:
    assert "side conditions" in refusal(RULE, traced(f'io.write("y", {expression})', 48))


def test_through_a_cast_the_packed_values_are_cast() -> None:
    body = 'boundary()\nio.write("y", cast(all_gather(cast(pad(x, 0, 0, 20), "bfloat16")), "float32"))'
    new = rewritten(RULE, traced(body, 80))
    assert payloads(new) == [12]
    assert (new.collectives[0].dtype, new.collectives[0].label.graph) == (DType.BFLOAT16, "g1")


def test_where_there_are_only_zeros_nothing_is_sent() -> None:
    program = traced('io.write("y", all_gather(select(x, [False] * 4)))', 48)
    assert not rewritten("packed_layout", program).collectives
