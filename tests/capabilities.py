"""Rows of what a library can do, as tests make them up."""

from collections.abc import Iterable

from overlayccl_core.deployments.capabilities import (
    Capabilities,
    Capability,
    LibraryCall,
    Shape,
    permute_shapes,
)
from overlayccl_core.program.kinds import DType, Kind


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
    call = LibraryCall(operation=operation, shape=(size, stride), dtype=dtype, payload_bytes=payload_bytes)
    return Capability(call=call, supported=supported, evidence=evidence)


def tried_permute(shape: Shape, *, supported: bool = True) -> Capability:
    """A permute that was tried."""
    return tried("collective_permute", shape[0], stride=shape[1], supported=supported)


def library_of(operations: Iterable[str]) -> Capabilities:
    """A library that can make these calls of four ranks, and no others."""
    permutes = permute_shapes(4).values()
    return Capabilities(
        tried(one, size, stride=stride)
        for one in operations
        for size, stride in (permutes if one == Kind.COLLECTIVE_PERMUTE else [(4, 1)])
    )


def call(operation: str, shape: Shape, dtype: DType = DType.FLOAT32, payload_bytes: int = 64) -> LibraryCall:
    """A call that is asked for."""
    return LibraryCall(operation=operation, shape=shape, dtype=dtype, payload_bytes=payload_bytes)
