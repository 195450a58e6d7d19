"""AG(V x) -> V'(AG(V_packed x)), A2A and permutes likewise: what repeats, and what is zero anyway, is not sent.

V' lays out after the arrival, as V did before. The map of the view below (through casts) tells what to pack.
Ranks with fewer elements send zeros behind, or the elements lying there if nothing has to be packed then.

Side conditions: every rank lays out fewer distinct elements in one block (for A2A: for one member) than the block
has. Without any, nothing is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node, make_permute, make_view, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.demand import end_to_end
from overlayccl_core.rewrites.rule import (
    Factor,
    Replacements,
    RuleNumerics,
    blocks_in,
    each,
    like,
    members,
    no_knobs,
)

KINDS = (Kind.ALL_GATHER, Kind.ALL_TO_ALL, Kind.COLLECTIVE_PERMUTE)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.LAYOUT
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    plans = {x: plan for x in sites if (plan := pack_plan(x))}
    return each(plans, lambda x, operand: _unpacked(x, operand, plans[x]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    """pack: From the operands of the view below to the blocks sent. back: From the packed result to that of x."""

    pack: Map
    back: Map


def pack_plan(x: Node) -> PackPlan | None:
    """Return the plan, or None if nothing is gained."""
    view = view_below(x.operands[0])
    if view is None:
        return None
    blocks, rows = blocks_in(x), view.map.rows
    width = view.size // blocks
    cell, at, source, length = _pieces(view.map, width)
    span = sum(y.size for y in view.operands)
    cells, start, distinct = map_algebra.union_of_intervals(cell, source, length, span)
    slot, most = end_to_end(cells, distinct, rows * blocks)
    if most >= width:
        return None
    pack = _alike(maps.from_pieces(rows, blocks * most, cells * most + slot, start, distinct), span)
    holder = np.searchsorted(cells * (span + 1) + start, cell * (span + 1) + source, "right") - 1
    place = slot[holder] + source - start[holder]
    unpack = maps.from_pieces(rows * blocks, width, cell * width + at, place, length)
    if x.kind is Kind.COLLECTIVE_PERMUTE:  # a rank that receives nothing holds zeros in any layout
        return PackPlan(pack=pack, back=map_algebra.take_rows(unpack, np.maximum(x.sources, 0)))
    return PackPlan(pack=pack, back=_of_members(x, unpack, rows, most))


def _alike(pack: Map, span: int) -> Map:
    """The identity, without packing, in place of a map of all elements that only turns some into zeros."""
    if pack.size != span or not span:
        return pack
    place = pack.keys % span
    return maps.identity(span) if ((pack.sources < 0) | (pack.sources == place)).all() else pack


def view_below(x: Node) -> Node | None:
    """Return the view below the casts and scales of x; None if there is none."""
    while x.kind in (Kind.CAST, Kind.SCALE):
        x = x.operands[0]
    return x if x.kind is Kind.VIEW else None


def _pieces(m: Map, width: int) -> tuple[Ints, Ints, Ints, Ints]:
    """(row * blocks + block, place in the block, source, length) of nonzero pieces, cut at the blocks' ends."""
    some = m.sources >= 0
    key, source, length = m.keys[some], m.sources[some], m.lengths[some]
    piece, low, length = map_algebra.cut_at_multiples(key, length, width)
    return low // width, low % width, source[piece] + low - key[piece], length


def _of_members(x: Node, unpack: Map, rows: int, most: int) -> Map:
    """The map to the result of x: the block of each member, unpacked as that member packed it for me.

    unpack: One row for every (row of the map, block).
    """
    groups, blocks = x.groups, blocks_in(x)
    member = members(groups) if rows > 1 else np.zeros((groups.ranks, groups.size), np.int64)
    chosen = member * blocks + (groups.place[:, None] if blocks > 1 else 0)
    if blocks == 1:  # all of a group receive the same
        chosen = chosen[groups.array[:, 0]]
    order = chosen.ravel() if unpack.rows > 1 else np.zeros(chosen.size, np.int64)
    each_row = np.searchsorted(unpack.keys, np.arange(unpack.rows + 1) * unpack.size)
    maps.check_runs(int(np.diff(each_row)[order].sum()))
    keys, sources = map_algebra.take_rows(unpack, order).spread(chosen.size)
    from_member = sources + keys // unpack.size % groups.size * most
    laid_out = Map(len(chosen), x.size, keys, np.where(sources < 0, maps.ZERO, from_member))
    return laid_out if blocks > 1 else map_algebra.take_rows(laid_out, groups.group)


def _unpacked(x: Node, operand: Node, plan: PackPlan) -> Node:
    packed = _packed(operand, plan.pack)
    if x.kind is Kind.COLLECTIVE_PERMUTE:
        return make_view([make_permute(packed, x.sources, x.label)], plan.back)
    return make_view([like(x, x.kind, packed)], plan.back)


def _packed(x: Node, pack: Map) -> Node:
    if x.kind is Kind.VIEW:
        return make_view(x.operands, pack, x.dtype)
    return rebuild(x, [_packed(x.operands[0], pack)])
