"""V(AG x) -> V'(permute(V x)): a gather of which every rank reads one other member's block, and no two the same.

A rank reads its own block from x directly. Nobody reads the pack of a rank without a receiver. A rank without reads
lays out the received block like the first rank with reads, in the place of every member's block.

Side conditions: every consumer is a view and it is no output; each rank reads of at most one other rank, each
rank is read by at most one other, and some rank by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, make_permute, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import demand
from overlayccl_core.rewrites.demand import Demand
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, each, no_knobs

KINDS = (Kind.ALL_GATHER,)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    plans = demand.planned(program, sites, demand.of_gather, permute_plan)
    return each(plans, lambda x, operand: _permuted(x, operand, plans[x]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutePlan:
    """sources: As in a collective_permute. back: Reads [received, x]. as_rank: Each rank packs like this rank."""

    sources: tuple[int, ...]
    pack: maps.Map
    back: maps.Map
    as_rank: maps.Ints


def permute_plan(x: Node, wanted: Demand) -> PermutePlan | None:
    """Return the plan, or None if ranks do not pair up."""
    ranks = x.groups.ranks
    own, other = wanted.where(wanted.own), wanted.where(~wanted.own)
    sources = np.full(ranks, -1)
    sources[other.rank] = other.sender
    senders = sources[sources >= 0]
    one_source = bool((sources[other.rank] == other.sender).all())
    if not len(senders) or not one_source or len(np.unique(senders)) < len(senders):
        return None
    slot, most = other.packed(x.groups.size, ranks)
    idle, as_first = _of_the_idle(x, wanted, other)
    back = maps.from_pieces(
        ranks,
        x.size,
        np.concatenate([other.rank * x.size + other.start, own.rank * x.size + own.start, idle]),
        np.concatenate([slot, most + own.offset, slot[as_first]]),
        np.concatenate([other.length, own.length, other.length[as_first]]),
    )
    return PermutePlan(
        sources=tuple(sources.tolist()),
        pack=maps.from_pieces(ranks, most, other.sender * most + slot, other.offset, other.length),
        back=back,
        as_rank=demand.first_that(np.isin(np.arange(ranks), senders)),
    )


def _of_the_idle(x: Node, wanted: Demand, other: Demand) -> tuple[maps.Ints, maps.Ints]:
    """(places in each member's block on ranks without reads, the first reader's piece for each of them)."""
    first = np.flatnonzero(other.rank == other.rank[0])
    idle = np.setdiff1d(np.arange(x.groups.ranks), wanted.rank)
    blocks = np.arange(x.groups.size) * x.operands[0].size
    keys = idle[:, None, None] * x.size + blocks[:, None] + other.offset[first]
    return keys.ravel(), np.tile(first, len(idle) * len(blocks))


def _permuted(x: Node, operand: Node, plan: PermutePlan) -> Node:
    packed = demand.view_as(operand, plan.pack, plan.as_rank)
    return make_view([make_permute(packed, plan.sources, x.label), operand], plan.back)
