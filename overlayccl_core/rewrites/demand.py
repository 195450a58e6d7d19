"""Who reads what of a collective's result: what the rules that send less are decided on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program import map_algebra
from overlayccl_core.program.facts import reads
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node, make_view, rebuild
from overlayccl_core.program.program import Program

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the ranks read of one all_gather, in pieces that lie in one member's block each.

    int64[pieces], sorted by rank, then start: `rank` reads `length` elements from `start` of the result; they
    are those from `offset` of the operand of rank `sender`, which has `place` in the group.
    """

    rank: Ints
    start: Ints
    length: Ints
    place: Ints
    sender: Ints
    offset: Ints

    @property
    def own(self) -> Mask:
        """bool[pieces]: a rank reads its own block."""
        found: Mask = self.sender == self.rank
        return found

    def where(self, mask: Mask) -> "Demand":
        """The pieces for which `mask` holds."""
        return Demand(
            rank=self.rank[mask],
            start=self.start[mask],
            length=self.length[mask],
            place=self.place[mask],
            sender=self.sender[mask],
            offset=self.offset[mask],
        )

    def packed(self, group_size: int, ranks: int) -> tuple[Ints, int]:
        """(place of each piece when all that goes between two ranks lies end to end, the most of any two)."""
        return end_to_end(self.rank * group_size + self.place, self.length, ranks * group_size)


def of_gather(program: Program, x: Node, users: dict[Node, list[Node]]) -> Demand | None:
    """The demand on an all_gather; None where every rank reads, or may read, all. users: program.users()."""
    found = reads(program, x, users)
    if found is None or int(found[2].sum()) == program.problem.ranks * x.size:
        return None
    block = x.operands[0].size
    piece, start, length = map_algebra.cut_at_multiples(found[1], found[2], block)
    rank, place = found[0][piece], start // block
    return Demand(
        rank=rank,
        start=start,
        length=length,
        place=place,
        sender=x.groups.array[x.groups.group[rank], place],
        offset=start % block,
    )


def end_to_end(cell: Ints, length: Ints, cells: int) -> tuple[Ints, int]:
    """(first place of each piece in its cell, elements of the fullest cell); `cell` is sorted."""
    filled = np.zeros(cells, np.int64)
    np.add.at(filled, cell, length)
    before = np.cumsum(length) - length
    return before - (np.cumsum(filled) - filled)[cell], int(filled.max(initial=0))


def view_as(x: Node, map_: Map, order: Ints) -> Node:
    """view(x, map_) in which rank r lays out as rank order[r] does, also what x itself is a view of.

    For ranks whose result nobody reads: with the layout of another rank, all ranks may have the same one.
    """
    if x.kind in (Kind.CAST, Kind.SCALE):
        return rebuild(x, [view_as(x.operands[0], map_, order)])
    if x.kind is Kind.VIEW:
        inner = map_algebra.compose(map_, x.map)
        return make_view(x.operands, map_algebra.take_rows(inner, order), x.dtype)
    return make_view([x], map_algebra.take_rows(map_, order), x.dtype)


def first_that(holds: Mask) -> Ints:
    """int[N]: the rank itself where `holds`, else the first rank where it does."""
    ranks: Ints = np.where(holds, np.arange(len(holds)), np.argmax(holds))
    return ranks
