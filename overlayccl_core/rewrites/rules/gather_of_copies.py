"""A2A(g equal blocks) -> AG(one block): who sends everybody the same may as well gather.

Side conditions: the operand is a layout whose g blocks are equal on every rank; more than one rank.
Numerics: same.
"""

from collections.abc import Sequence

from overlayccl_core.program import map_algebra
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, Replacement, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, like, no_knobs

KINDS = (Kind.ALL_TO_ALL,)
NUMERICS = RuleNumerics.SAME
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Gather the one block."""
    return {x: _gathered(x, block) for x in sites if (block := _one_block(x)) is not None}


def _one_block(x: Node) -> Map | None:
    """The map of one block of x's operand, if all its blocks are equal."""
    (operand,) = x.operands
    if operand.kind is not Kind.VIEW or x.groups.size == 1:
        return None
    folded = map_algebra.fold(operand.map, x.groups.size)
    return folded[1] if folded and folded[0] == "equal" else None


def _gathered(x: Node, block: Map) -> Replacement:
    (copies,) = x.operands
    return lambda go: like(
        x, Kind.ALL_GATHER, make_view([go(y) for y in copies.operands], block, copies.dtype)
    )
