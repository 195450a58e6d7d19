"""Tolerances: the class of a Program's numerics, and the error allowed in each class.

exact       every output element is one input element (times a power of two), or the same terms in the same
            operations as in the reference: the same bits for all finite data, -0 among them. The normal form leaves
            out scales that cancel, so they do not run. A power of two that runs rounds nothing within the range
            allowed by the gate; beyond the range of a dtype it may
reordered   sums in the output's own dtype or wider, in another order
lossy       a sum, a scale or a cast in a narrower dtype than the output's, or in 16 bits

An error is the rms of the difference over the rms of the right values. The equivalence gate holds a Program's
error against float64 to its tolerance; the selftest of a deployed module holds the chosen calls to it against the
plain.
"""

from collections.abc import Iterable
from enum import StrEnum

from overlayccl_core.program.arithmetics import is_power_of_two
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.program import Program

REORDERED_TOLERANCE = 1e-5  # a sum of 224 unit normals in float32 has 2.7e-7
NONLINEAR_TOLERANCE = 1e-9  # in float64, of every element: a constant near ln V is off by 1e-3 and more
LOSSY_TOLERANCE = 3e-2  # the same sum hop by hop in bfloat16 has 1.8e-2


class NumericsClass(StrEnum):
    """From harmless to harmful."""

    EXACT = "exact"
    REORDERED = "reordered"
    LOSSY = "lossy"


def rounds(x: Node) -> bool:
    """True for arithmetic with a result that may be rounded."""
    if x.kind is Kind.SCALE:
        return not is_power_of_two(x.ratio)
    if x.kind is Kind.ROWWISE:
        return x.row.operation.rounds
    return x.kind in (Kind.SUM, Kind.CAST, Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)


def loses(outputs: Iterable[Node]) -> bool:
    """True if some output is computed in a narrower dtype than its own, or in 16 bits."""
    by_dtype: dict[DType, list[Node]] = {}
    for x in outputs:
        by_dtype.setdefault(x.dtype, []).append(x)
    return any(
        rounds(x) and (x.dtype.bytes < dtype.bytes or x.dtype.bytes == 2)
        for dtype, roots in by_dtype.items()
        for x in topological(roots)
    )


def tolerance(numerics: str, *programs: Program) -> float:
    """Return the error allowed between compared Programs, one of which is of this class."""
    if numerics == NumericsClass.LOSSY or any(loses(p.outputs.values()) for p in programs):
        return LOSSY_TOLERANCE
    return REORDERED_TOLERANCE if any(rounds(x) for p in programs for x in p.nodes) else 0.0
