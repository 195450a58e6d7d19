"""AG(x) -> A2A(g copies of x): the same bytes arrive, through a primitive that may cost less to start.

Side conditions: more than one rank. g times the payload. Numerics: same.
"""

from collections.abc import Sequence

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, each, like, no_knobs

KINDS = (Kind.ALL_GATHER,)
NUMERICS = RuleNumerics.SAME
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Send a copy to every member."""
    return each((x for x in sites if x.groups.size > 1), _of_copies)


def _of_copies(x: Node, operand: Node) -> Node:
    return like(x, Kind.ALL_TO_ALL, make_view([operand], maps.copies(operand.size, x.groups.size)))
