"""C(x) of a later graph -> C(x) of no graph: collectives of different graphs may then run in one.

Collectives that differed in their graph only become one. Side conditions: the collective has a graph label.
Numerics: same.
"""

from collections.abc import Sequence
from dataclasses import replace

from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.program.nodes import Node, relabel
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, each, no_knobs

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Take the graph out of the labels."""
    return each((x for x in sites if x.label.graph), _of_no_graph)


def _of_no_graph(x: Node, operand: Node) -> Node:
    return relabel(x, operand, replace(x.label, graph=""))
