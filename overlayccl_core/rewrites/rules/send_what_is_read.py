"""V(AG x) -> V'(A2A(V_dest x)): a gather of which every rank reads little sends each member only that.

Ranks take their own blocks from x directly if they read more of them than of any other block. If nobody reads
another's block, nothing is sent at all.

Side conditions: every consumer is a view and it is no output; no pair of ranks needs a whole block.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import demand
from overlayccl_core.rewrites.demand import Demand
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, each, like, no_knobs

KINDS = (Kind.ALL_GATHER,)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    plans = demand.planned(program, sites, demand.of_gather, exchange_plan)
    return each(plans, lambda x, operand: _exchanged(x, operand, plans[x]))


def exchange_plan(x: Node, wanted: Demand) -> tuple[Map | None, Map] | None:
    """Return (map to the blocks sent, None if empty; map to their places in the gather), or None if no gain.

    The second map reads [received, x].
    """
    ranks, g = x.groups.ranks, x.groups.size
    own, other = wanted.where(wanted.own), wanted.where(~wanted.own)
    _, sent_most = other.packed(g, ranks)
    _, kept_most = own.packed(g, ranks)
    local = kept_most > sent_most
    sent = other if local else wanted
    slot, most = sent.packed(g, ranks)
    if most >= x.operands[0].size:
        return None
    keys, sources, lengths = [sent.rank * x.size + sent.start], [sent.place * most + slot], [sent.length]
    if local:
        keys.append(own.rank * x.size + own.start)
        sources.append(g * most + own.offset)
        lengths.append(own.length)
    back = maps.from_pieces(
        ranks, x.size, np.concatenate(keys), np.concatenate(sources), np.concatenate(lengths)
    )
    if most == 0:
        return None, back
    placed = sent.sender * (g * most) + x.groups.place[sent.rank] * most + slot
    return maps.from_pieces(ranks, g * most, placed, sent.offset, sent.length), back


def _exchanged(x: Node, operand: Node, plan: tuple[Map | None, Map]) -> Node:
    pack, back = plan
    if pack is None:
        return make_view([operand], back)
    return make_view([like(x, Kind.ALL_TO_ALL, make_view([operand], pack)), operand], back)
