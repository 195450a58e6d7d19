"""AG over G -> AG over the connected components of who reads from whom; blocks of the others are not read.

Side conditions: every consumer is a view and it is no output; the components are of equal size, more than one
rank and fewer than the group.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import demand
from overlayccl_core.rewrites.demand import Demand
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, each, like, members, no_knobs

KINDS = (Kind.ALL_GATHER,)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    plans = demand.planned(program, sites, demand.of_gather, narrower_groups)
    return each(plans, lambda x, operand: _narrowed(x, operand, plans[x]))


def narrower_groups(x: Node, wanted: Demand) -> Groups | None:
    """Return the components, members in the group's order; None unless of one size, above 1, below the group's."""
    order = x.groups.array.ravel().tolist()
    narrow = demand.components(x.groups.ranks, wanted.rank, wanted.sender, order)
    return narrow if narrow is not None and 1 < narrow.size < x.groups.size else None


def _narrowed(x: Node, operand: Node, narrow: Groups) -> Node:
    block = operand.size
    rank, member = np.arange(narrow.ranks)[:, None], members(x.groups)
    keys = rank * x.size + np.arange(x.groups.size) * block
    near = narrow.group[member] == narrow.group[rank]
    sources = np.where(near, narrow.place[member] * block, maps.ZERO)
    back = Map(narrow.ranks, x.size, keys.ravel(), sources.ravel())
    return make_view([like(x, Kind.ALL_GATHER, operand, narrow)], back)
