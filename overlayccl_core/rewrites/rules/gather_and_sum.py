"""AR(x) -> sum(AG(x)): every member adds up everybody's values itself.

Side conditions: the all_reduce sums, over more than one rank. g times the memory. Numerics: reordered.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, make_sum
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, adds, each, like, no_knobs

KINDS = (Kind.ALL_REDUCE,)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Gather, then add up the blocks."""
    return each((x for x in sites if adds(x) and x.groups.size > 1), _gathered)


def _gathered(x: Node, operand: Node) -> Node:
    return make_sum(like(x, Kind.ALL_GATHER, operand), x.groups.size)
