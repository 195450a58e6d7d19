"""AR(V x) -> V'(AG(V_live x)): where at most one member has something in each slot, there is nothing to add.

What is live is read off the map of the view below (through casts and scales) and the pairs of a permute.

Side conditions: a sum; in each group no slot is live on two members; something is live.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.demand import end_to_end, first_that, view_as
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, adds, each, like, no_knobs

KINDS = (Kind.ALL_REDUCE,)
NUMERICS = RuleNumerics.SAME  # x + 0 is x
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    plans = {x: plan for x in sites if adds(x) and (plan := gather_plan(x))}
    return each(plans, lambda x, operand: _gathered(x, operand, plans[x]))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherPlan:
    """pack: Live elements. back: From the gathered parts. as_rank: Each rank packs like this rank."""

    pack: Map
    back: Map
    as_rank: Ints


def gather_plan(x: Node) -> GatherPlan | None:
    """Return the plan, or None if two members of a group meet, or if nothing is live."""
    groups = x.groups
    live = support(x.operands[0], groups.ranks)
    if live is None or not len(live[0]) or meets(groups.group[live[0]], live[1], live[2], x.size):
        return None
    rank, start, length = live
    slot, most = end_to_end(rank, length, groups.ranks)
    placed = groups.group[rank] * x.size + start
    of_group = maps.from_pieces(len(groups.members), x.size, placed, groups.place[rank] * most + slot, length)
    return GatherPlan(
        pack=maps.from_pieces(groups.ranks, most, rank * most + slot, start, length),
        back=map_algebra.take_rows(of_group, groups.group),
        as_rank=first_that(np.isin(np.arange(groups.ranks), rank)),
    )


def support(x: Node, ranks: int) -> tuple[Ints, Ints, Ints] | None:
    """Return (rank, start, length), sorted and disjoint: x is zero outside these stretches; None if unknown."""
    match x.kind:
        case Kind.CAST | Kind.SCALE:
            return support(x.operands[0], ranks)
        case Kind.COLLECTIVE_PERMUTE:
            receivers = np.flatnonzero(np.array(x.sources) >= 0)
            return receivers, np.zeros_like(receivers), np.full_like(receivers, x.size)
        case Kind.VIEW if x.map.rows == ranks:
            some = x.map.sources >= 0
            keys, length = x.map.keys[some], x.map.lengths[some]
            if not len(keys):
                return keys, keys, keys
            return map_algebra.union_of_intervals(keys // x.size, keys % x.size, length, x.size)
    return None


def meets(group: Ints, start: Ints, length: Ints, size: int) -> bool:
    """Return whether two stretches of one group have an element in common."""
    begin = group * size + start
    order = np.argsort(begin, kind="stable")
    return bool((begin[order][1:] < (begin + length)[order][:-1]).any())


def _gathered(x: Node, operand: Node, plan: GatherPlan) -> Node:
    packed = view_as(operand, plan.pack, plan.as_rank)
    return make_view([like(x, Kind.ALL_GATHER, packed)], plan.back)
