"""What the capabilities table says about a call."""

from dataclasses import replace
from typing import Any

import pytest

from overlayccl_core.deployments.capabilities import Capabilities, Shape, call_of, operation_name, shape_text
from overlayccl_core.program.calls import make_call
from overlayccl_core.program.groups import NO_ORDER, Groups, contiguous, strided, world
from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.nodes import make_collective, make_input, make_permute
from tests.capabilities import call
from tests.seed_cases import case


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
    assert call_of([make_permute(x, [*range(1, 8), 0])], at).shape == (24, 1)


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
