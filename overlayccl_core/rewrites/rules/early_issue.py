"""C(x) -> C(x) labelled `early`: issued before the others of its depth, all in flight before one is waited for.

Side conditions: ranks are not compiled for: in a graph the order of calls says nothing. Memory may rise, since
values are asked for earlier and results wait for each other.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, issued, no_knobs

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.SCHEDULE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    return issued(program, sites, IssueOrder.EARLY)
