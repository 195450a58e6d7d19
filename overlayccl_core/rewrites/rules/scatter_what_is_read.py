"""V(AR x) -> V'(RS(V_dest x)): a reduction of which every member reads a part gives each only its own.

Side conditions: every consumer is a view and it is no output; group size times the most that any rank reads is
at most the size of x, and not nothing.
"""

from collections.abc import Sequence

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.facts import reads
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node, make_collective, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.demand import end_to_end, planned
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, each, no_knobs

KINDS = (Kind.ALL_REDUCE,)
NUMERICS = RuleNumerics.REORDERED  # the library reduces in another order
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    plans = planned(program, sites, reads, scatter_plan)
    return each(plans, lambda x, operand: _scattered(x, operand, *plans[x]))


def scatter_plan(x: Node, wanted: tuple[Ints, Ints, Ints]) -> tuple[Map, Map] | None:
    """Return (map to the members' parts one after another, map of my part to its places), or None if no gain."""
    groups, (rank, start, length) = x.groups, wanted
    slot, most = end_to_end(rank, length, groups.ranks)
    width = groups.size * most
    if not 0 < width <= x.size:
        return None
    placed = groups.group[rank] * width + groups.place[rank] * most + slot
    of_group = maps.from_pieces(len(groups.members), width, placed, start, length)
    back = maps.from_pieces(groups.ranks, x.size, rank * x.size + start, slot, length)
    return map_algebra.take_rows(of_group, groups.group), back


def _scattered(x: Node, operand: Node, pack: Map, back: Map) -> Node:
    packed = make_view([operand], pack)
    mine = make_collective(Kind.REDUCE_SCATTER, packed, x.groups, x.label, x.attr.reduction)
    return make_view([mine], back)
