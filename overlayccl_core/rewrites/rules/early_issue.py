"""C(x) -> C(x) labelled `early`: issued before the others of its depth that are not.

Side conditions: none; memory may rise, since what it reads is wanted earlier. Numerics: same.
"""

from collections.abc import Sequence
from dataclasses import replace

from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder
from overlayccl_core.program.nodes import Node, relabel
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, each

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """Nothing to turn."""
    return ("",)


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Set the label."""
    return each((x for x in sites if x.label.issue is not IssueOrder.EARLY), _early)


def _early(x: Node, operand: Node) -> Node:
    return relabel(x, operand, replace(x.label, issue=IssueOrder.EARLY))
