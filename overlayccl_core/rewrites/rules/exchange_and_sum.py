"""RS(x) -> sum(A2A(x)): every member gets everybody's block for it and adds them up itself.

Side conditions: the reduce_scatter sums, over more than one rank. Numerics: reordered.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, make_sum
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, adds, each, like, no_knobs

KINDS = (Kind.REDUCE_SCATTER,)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Exchange, then add up the blocks."""
    return each((x for x in sites if adds(x) and x.groups.size > 1), _exchanged)


def _exchanged(x: Node, operand: Node) -> Node:
    return make_sum(like(x, Kind.ALL_TO_ALL, operand), x.groups.size)
