"""AR(x) -> head(AG(RS(x padded to a multiple of the group))).

Side conditions: the all_reduce sums, over more than one rank. Numerics: reordered.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, adds, each, head, like, no_knobs, padded

KINDS = (Kind.ALL_REDUCE,)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Each rank sums its share, then all gather the shares."""
    return each((x for x in sites if adds(x) and x.groups.size > 1), _by_shares)


def _by_shares(x: Node, operand: Node) -> Node:
    share = like(x, Kind.REDUCE_SCATTER, padded(operand, x.groups.size))
    return head(like(x, Kind.ALL_GATHER, share), x.size)
