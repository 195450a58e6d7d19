"""C(x) -> C(x) labelled with how many calls may be in flight while the model computes (program/in_flight.py).

Side conditions: as of `early_issue`. Knobs: `2`, `4`, `all`.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import DoesNotApply, Factor, Replacements, RuleNumerics, issued

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.SCHEDULE
ORDERS = {"2": IssueOrder.TWO, "4": IssueOrder.FOUR, "all": IssueOrder.ALL}


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    return tuple(ORDERS)


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    if knob not in ORDERS:
        raise DoesNotApply(f"no number {knob!r} of calls in flight: choose among {', '.join(ORDERS)}")
    return issued(program, sites, ORDERS[knob])
