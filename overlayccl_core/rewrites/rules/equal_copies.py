"""AR(x) -> g x; RS(x) -> g V_mine x; AG, A2A -> a layout: members that hold the same values need not talk.

Side conditions: the operand, or for AG and A2A all that the operand is a view of, provably holds the same value
on all members of each group; the layout that takes its place is not too ragged. A maximum is not multiplied.
Numerics: reordered (g times x instead of g terms added).
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.nodes import Node, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import without_talk
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, each, no_knobs

KINDS = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER, Kind.ALL_GATHER, Kind.ALL_TO_ALL)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Replacements of the sites whose members hold equal copies."""
    copies = [x for x in sites if _local(x, x.operands[0]) is not None]
    return each(copies, lambda x, operand: _local(x, operand) or rebuild(x, [operand]))


def _local(x: Node, operand: Node) -> Node | None:
    try:
        return without_talk(x, operand)
    except Rejected:
        return None
