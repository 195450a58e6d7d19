"""What the capabilities table says about a call."""

import pytest

from overlayccl_core.deployments.capabilities import Capabilities, operation_name
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.nodes import make_collective, make_input, make_permute


def row(payload_bytes: int, supported: bool, operation: str = "all_gather", group_size: int = 4) -> dict:
    return {
        "operation": operation,
        "group_size": group_size,
        "dtype": "float32",
        "payload_bytes": payload_bytes,
        "supported": supported,
        "evidence": f"tried {payload_bytes}",
        "fingerprint": "machine",
    }


TABLE = Capabilities.from_rows(
    [row(64, True), row(8192, True), row(2**33, False), row(64, False, operation="all_to_all")]
)


@pytest.mark.parametrize(
    ("operation", "group_size", "dtype", "payload_bytes", "supported"),
    [
        ("all_gather", 4, DType.FLOAT32, 2**20, True),
        ("all_gather", 4, DType.FLOAT32, 2**33 - 1, True),
        ("all_gather", 4, DType.FLOAT32, 2**33, False),
        ("all_gather", 4, DType.FLOAT32, 2**34, False),
        ("all_gather", 8, DType.FLOAT32, 64, False),
        ("all_gather", 4, DType.BFLOAT16, 64, False),
        ("all_to_all", 4, DType.FLOAT32, 64, False),
        ("all_reduce", 4, DType.FLOAT32, 64, False),
    ],
)
def test_supported_is_what_was_tried_below_what_failed(
    operation: str, group_size: int, dtype: DType, payload_bytes: int, supported: bool
) -> None:
    assert TABLE.supports(operation, group_size, dtype, payload_bytes).supported is supported


def test_the_evidence_comes_along() -> None:
    assert TABLE.supports("all_gather", 4, DType.FLOAT32, 2**40).evidence.endswith("tried 8589934592")
    assert "did not try" in TABLE.supports("all_reduce", 4, DType.FLOAT32, 64).evidence


def test_names_of_operations() -> None:
    x = make_input(("x",), equal=False, size=8)
    assert operation_name(make_permute(x, [1, 0, 3, 2])) == "collective_permute"
    assert operation_name(make_collective(Kind.ALL_REDUCE, x, world(4))) == "all_reduce"
    largest = make_collective(Kind.ALL_REDUCE, x, world(4), reduction=Reduction.MAX)
    assert operation_name(largest) == "all_reduce_max"
