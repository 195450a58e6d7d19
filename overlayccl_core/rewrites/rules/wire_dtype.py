"""C(x) -> cast C(cast x): fewer bytes on the wire, and sums in the narrow type.

Side conditions: elements wider than the knob's type.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import COLLECTIVES, DType
from overlayccl_core.program.nodes import Node, make_cast, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import DoesNotApply, Factor, Replacements, RuleNumerics, each

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.LOSSY
FACTOR = Factor.DTYPE

WIRES = (DType.BFLOAT16,)


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The types on the wire."""
    return tuple(wire.value for wire in WIRES)


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    wire = next((w for w in WIRES if w == knob), None)
    if wire is None:
        raise DoesNotApply(f"no type {knob!r} on the wire: choose among {', '.join(WIRES)}")
    wider = [x for x in sites if x.dtype.bytes > wire.bytes]
    return each(wider, lambda x, operand: make_cast(rebuild(x, [make_cast(operand, wire)]), x.dtype))
