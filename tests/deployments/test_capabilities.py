"""What the capabilities table says about a call."""

from dataclasses import replace
from typing import Any

import pytest

from overlayccl_core.deployments.capabilities import (
    Capabilities,
    Shape,
    call_of,
    operation_name,
    permute_shape,
    shape_text,
)
from overlayccl_core.program.calls import make_call
from overlayccl_core.program.groups import NO_ORDER, Groups, contiguous, strided, world
from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.nodes import make_collective, make_input, make_permute
from tests.capabilities import call, tried_permute
from tests.known_cases import case


def row(payload_bytes: int, supported: bool, operation: str = "all_gather", **other: Any) -> dict[str, Any]:
    return {
        "operation": operation,
        "group_size": 4,
        "stride": 1,
        "dtype": "float32",
        "payload_bytes": payload_bytes,
        "supported": supported,
        "evidence": f"tried {payload_bytes}",
        "fingerprint": "machine",
        **other,
    }


TABLE = Capabilities.from_rows(
    [
        row(64, True),
        row(8192, True),
        row(2**33, False),
        row(64, True, stride=8),
        row(64, True, group_size=32, dtype="bfloat16"),
        row(64, False, group_size=32, dtype="float16"),
        row(64, False, operation="all_to_all"),
    ]
)


@pytest.mark.parametrize(
    ("operation", "shape", "dtype", "payload_bytes", "supported"),
    [
        ("all_gather", (4, 1), DType.FLOAT32, 2**20, True),
        ("all_gather", (4, 1), DType.FLOAT32, 2**33 - 1, True),
        ("all_gather", (4, 1), DType.FLOAT32, 2**33, False),
        ("all_gather", (4, 1), DType.FLOAT32, 2**34, False),
        ("all_gather", (4, 8), DType.FLOAT32, 2**34, True),
        ("all_gather", (4, 2), DType.FLOAT32, 64, False),
        ("all_gather", (4, NO_ORDER), DType.FLOAT32, 64, False),
        ("all_gather", (8, 1), DType.FLOAT32, 64, False),
        # dtypes and shapes tried apart: what failed of either counts
        ("all_gather", (4, 1), DType.BFLOAT16, 64, True),
        ("all_gather", (4, 8), DType.BFLOAT16, 64, True),
        ("all_gather", (4, 1), DType.BFLOAT16, 2**33, False),
        ("all_gather", (4, 1), DType.FLOAT16, 64, False),
        ("all_gather", (4, 1), DType.FLOAT64, 64, False),
        ("all_gather", (8, 1), DType.BFLOAT16, 64, False),
        ("all_to_all", (4, 1), DType.FLOAT32, 64, False),
        ("all_reduce", (4, 1), DType.FLOAT32, 64, False),
    ],
)
def test_supported_is_what_was_tried_below_what_failed(
    operation: str, shape: Shape, dtype: DType, payload_bytes: int, supported: bool
) -> None:
    assert TABLE.supports(call(operation, shape, dtype, payload_bytes)).supported is supported


def test_the_evidence_comes_along() -> None:
    assert TABLE.supports(call("all_gather", (4, 1), payload_bytes=2**40)).evidence.endswith(
        "tried 8589934592"
    )
    assert "did not try" in TABLE.supports(call("all_reduce", (4, 1))).evidence
    assert "apart" in TABLE.supports(call("all_gather", (4, 8), DType.BFLOAT16)).evidence


@pytest.mark.parametrize(
    ("groups", "strided", "shape"),
    [(contiguous(8, 2), False, (2, 1)), (strided(8, 2), False, (4, 2)), (strided(8, 2), True, (4, 6))],
)
def test_the_shape_of_a_call_is_that_of_its_groups_among_all_ranks(
    groups: Groups, strided: bool, shape: Shape
) -> None:
    """Three problems of eight ranks at once, one behind the other, or every third rank."""
    at = replace(case("uniform_a2a", ranks=8), groups=3, strided=strided)
    x = make_input(("x",), equal=False, size=8)
    assert call_of([make_collective(Kind.ALL_REDUCE, x, groups)], at).shape == shape


RING, LINE, SWAP, HALF, ANY = (8, 1), (7, 1), (8, 4), (4, 4), (8, NO_ORDER)


@pytest.mark.parametrize(
    ("sources", "shape"),
    [
        ((7, 0, 1, 2, 3, 4, 5, 6), RING),
        ((1, 2, 3, 4, 5, 6, 7, 0), RING),
        ((-1, 0, 1, 2, 3, 4, 5, 6), LINE),
        ((1, 2, 3, 4, 5, 6, 7, -1), LINE),
        ((4, 5, 6, 7, 0, 1, 2, 3), SWAP),
        ((-1, -1, -1, -1, 0, 1, 2, 3), HALF),
        ((4, 5, 6, 7, -1, -1, -1, -1), HALF),
        ((6, 7, 0, 1, 2, 3, 4, 5), ANY),  # all send, but two ranks on
        ((1, 0, 3, 2, 5, 4, 7, 6), ANY),  # all to a neighbour, but to and fro
        ((3, 0, 1, 2, 7, 4, 5, 6), ANY),  # two rings
        ((-1, 0, -1, 2, -1, 4, -1, 6), ANY),  # half of all send, but to the next
        ((-1, -1, -1, -1, 0, 1, 2, -1), ANY),
        ((-1,) * 8, ANY),
        (tuple(range(8)), ANY),
    ],
)
def test_the_shape_of_a_permute_is_how_many_send_and_how_far(sources: tuple[int, ...], shape: Shape) -> None:
    assert permute_shape(sources) == shape


@pytest.mark.parametrize(
    ("strided", "sources", "shape"),
    [
        (False, (1, 0), (4, NO_ORDER)),  # 0 and 1, 2 and 3
        (True, (1, 0), (4, 2)),  # 0 and 2, 1 and 3
        (True, (-1, 0), (2, 2)),
        (False, (-1, 0), (4, NO_ORDER)),
    ],
)
def test_permutes_of_concurrent_problems_are_one_of_all_ranks(
    strided: bool, sources: tuple[int, ...], shape: Shape
) -> None:
    assert permute_shape(sources, 2, strided=strided) == shape


def test_a_permute_that_was_not_tried_is_not_supported_by_one_that_was() -> None:
    can = Capabilities([tried_permute(LINE), tried_permute(RING, supported=False)])
    asked = [can.supports(call("collective_permute", shape)) for shape in (LINE, RING, SWAP, HALF, ANY)]
    assert [one.supported for one in asked] == [True, False, False, False, False]
    assert "did not try" in asked[2].evidence


def test_shapes_in_words() -> None:
    assert list(map(shape_text, [(4, 1), (7, 32), (2, NO_ORDER)])) == [
        "4",
        "7, 32 ranks apart",
        "2 in no order",
    ]


def test_names_of_operations() -> None:
    x = make_input(("x",), equal=False, size=8)
    assert operation_name([make_permute(x, [1, 0, 3, 2])]) == "collective_permute"
    assert operation_name([make_collective(Kind.ALL_REDUCE, x, world(4))]) == "all_reduce"
    largest = make_collective(Kind.ALL_REDUCE, x, world(4), reduction=Reduction.MAX)
    assert operation_name([largest]) == "all_reduce_max"
    two = make_call(Kind.ALL_REDUCE, [x, make_input(("y",), equal=False, size=4)], world(4))
    assert operation_name(two) == "all_reduce_coalesced"
    assert call_of(two, case("uniform_a2a")).payload_bytes == 48
