"""Rows of what a library can do, as tests make them up."""

from collections.abc import Iterable

from overlayccl_core.deployments.capabilities import Call, Capabilities, Capability, Shape
from overlayccl_core.program.kinds import DType


def tried(
    operation: str,
    size: int = 4,
    *,
    stride: int = 1,
    dtype: DType = DType.FLOAT32,
    payload_bytes: int = 1,
    supported: bool = True,
    evidence: str = "tried",
) -> Capability:
    """A call that was tried."""
    call = Call(operation=operation, shape=(size, stride), dtype=dtype, payload_bytes=payload_bytes)
    return Capability(call=call, supported=supported, evidence=evidence)


def library_of(operations: Iterable[str]) -> Capabilities:
    """A library that can make these calls of four ranks, and no others."""
    return Capabilities(tried(one) for one in operations)


def call(operation: str, shape: Shape, dtype: DType = DType.FLOAT32, payload_bytes: int = 64) -> Call:
    """A call that is asked for."""
    return Call(operation=operation, shape=shape, dtype=dtype, payload_bytes=payload_bytes)
