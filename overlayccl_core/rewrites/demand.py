"""The ranks' reads of a collective's result: the basis of rules that send less."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program import map_algebra
from overlayccl_core.program.facts import reads, valid_of
from overlayccl_core.program.groups import Groups, groups_of
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node, make_view, rebuild
from overlayccl_core.program.program import Program

Mask = NDArray[np.bool_]
Users = dict[Node, list[Node]]
Wanted = TypeVar("Wanted")
Plan = TypeVar("Plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The ranks' reads of one all_gather, in pieces, each within one member's block.

    int64[pieces], sorted by rank, then start: `rank` reads `length` elements from `start` of the result. They come
    from `offset` of the operand of rank `sender`, at `place` in the group.
    """

    rank: Ints
    start: Ints
    length: Ints
    place: Ints
    sender: Ints
    offset: Ints

    @property
    def own(self) -> Mask:
        """bool[pieces]: whether a rank reads its own block."""
        own: Mask = self.sender == self.rank
        return own

    def where(self, mask: Mask) -> "Demand":
        """Return the pieces with `mask` true."""
        return Demand(**{one.name: getattr(self, one.name)[mask] for one in fields(self)})

    def packed(self, group_size: int, ranks: int) -> tuple[Ints, int]:
        """Return (place of each piece, with all between two ranks end to end; the most between any two)."""
        return end_to_end(self.rank * group_size + self.place, self.length, ranks * group_size)


def of_gather(program: Program, x: Node, users: Users) -> Demand | None:
    """Return the demand on an all_gather; None if every rank reads, or may read, all. users: program.users()."""
    stretches = reads(program, x, users)
    if stretches is None or int(stretches[2].sum()) == program.problem.ranks * x.size:
        return None
    block = x.operands[0].size
    piece, start, length = map_algebra.cut_at_multiples(stretches[1], stretches[2], block)
    rank, place = stretches[0][piece], start // block
    return Demand(
        rank=rank,
        start=start,
        length=length,
        place=place,
        sender=x.groups.array[x.groups.group[rank], place],
        offset=start % block,
    )


def planned(
    program: Program,
    sites: Sequence[Node],
    wanted_of: Callable[[Program, Node, Users], Wanted | None],
    plan_of: Callable[[Node, Wanted], Plan | None],
) -> dict[Node, Plan]:
    """Return plan_of(x, wanted_of(program, x, users)) of every site, unless one of the two is None.

    Sites with equal groups, sizes and readers (the layers of a model) share one plan.
    """
    users = program.users()
    known: dict[Hashable, Plan | None] = {}
    plans: dict[Node, Plan] = {}
    for x in sites:
        key = _how_read(program, x, users)
        if key not in known:
            wanted = wanted_of(program, x, users)
            known[key] = None if wanted is None else plan_of(x, wanted)
        if (plan := known[key]) is not None:
            plans[x] = plan
    return plans


def _how_read(program: Program, x: Node, users: Users) -> Hashable:
    """A key: equal for sites with equal groups, sizes and `facts.reads`."""
    readers = tuple(
        (u.map.digest, sum(y.size for y in u.operands[: u.operands.index(x)]), valid_of(program, u, users))
        if u.kind is Kind.VIEW
        else u.kind
        for u in users[x]
    )
    return x.groups, x.operands[0].size, x in program.outputs.values(), readers


def components(ranks: int, reader: Ints, sender: Ints, order: Sequence[int] | None = None) -> Groups | None:
    """Return the connected components of readers and senders as Groups; None if their sizes differ.

    Args:
        order: Order of the members (None: by rank).
    """
    label = _least_connected(ranks, reader, sender)
    parts: dict[int, list[int]] = {}
    for rank in range(ranks) if order is None else order:
        parts.setdefault(int(label[rank]), []).append(rank)
    return groups_of(parts.values(), ranks) if len({len(part) for part in parts.values()}) == 1 else None


def _least_connected(ranks: int, reader: Ints, sender: Ints) -> Ints:
    """int[N]: the smallest rank connected with each rank."""
    label = np.arange(ranks)
    while True:
        before = label.copy()
        least = np.minimum(label[reader], label[sender])
        np.minimum.at(label, reader, least)
        np.minimum.at(label, sender, least)
        label = label[label]
        if (label == before).all():
            return label


def end_to_end(cell: Ints, length: Ints, cells: int) -> tuple[Ints, int]:
    """Return (first place of each piece in its cell, elements of the fullest cell); `cell` is sorted."""
    filled = np.zeros(cells, np.int64)
    np.add.at(filled, cell, length)
    before = np.cumsum(length) - length
    return before - (np.cumsum(filled) - filled)[cell], int(filled.max(initial=0))


def view_as(x: Node, map_: Map, order: Ints) -> Node:
    """Return view(x, map_) in which rank r lays out as rank order[r] does, also through x if it is a view.

    For ranks with an unread result: with the layout of another rank, all ranks may have the same one.
    """
    if x.kind in (Kind.CAST, Kind.SCALE):
        return rebuild(x, [view_as(x.operands[0], map_, order)])
    if x.kind is Kind.VIEW:
        inner = map_algebra.compose(map_, x.map)
        return make_view(x.operands, map_algebra.take_rows(inner, order), x.dtype)
    return make_view([x], map_algebra.take_rows(map_, order), x.dtype)


def first_that(holds: Mask) -> Ints:
    """Return int[N]: the rank itself if `holds`, else the first rank with `holds`."""
    ranks: Ints = np.where(holds, np.arange(len(holds)), np.argmax(holds))
    return ranks
