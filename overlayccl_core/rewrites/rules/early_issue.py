"""C(x) -> C(x) labelled `early`: issued before the others of its depth, all in flight before one is waited for.

Side conditions: ranks are not compiled for: in a graph the order of calls says nothing. Memory may rise, since
values are asked for earlier and results wait for each other.
"""

from collections.abc import Sequence
from dataclasses import replace

from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder
from overlayccl_core.program.nodes import Node, relabel
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import DoesNotApply, Replacements, RuleNumerics, each, no_knobs

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    if program.problem.case.uniform:
        raise DoesNotApply("ranks compile what they run, and in a graph the order of calls says nothing")
    return each((x for x in sites if x.label.issue is not IssueOrder.EARLY), _early)


def _early(x: Node, operand: Node) -> Node:
    return relabel(x, operand, replace(x.label, issue=IssueOrder.EARLY))
