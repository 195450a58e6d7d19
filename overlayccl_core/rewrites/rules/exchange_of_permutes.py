"""{P_s(V_s x)} -> slices of A2A(V x): one exchange for all that ranks send to each other, the way back from `ring`.

The block for a rank holds all pieces sent to it, end to end, with zeros up to the longest. A view may read the
received pieces beside x itself. Then the exchange also carries this part of x, in the rank's block for itself, as
the library's own does, unless it is larger than all blocks for others. So a ring of an all_to_all becomes the
all_to_all again. A ring of an all_gather becomes one of equal blocks; `gather_of_copies` makes that an all_gather.

Side conditions: two permutes or more of one value x, or of layouts of it, under one label; the ranks form groups of
equal size, of more than one rank, by who talks to whom.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.facts import read_by
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.nodes import Node, Replacement, make_collective, make_view, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.demand import components, end_to_end
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, no_knobs

KINDS = (Kind.COLLECTIVE_PERMUTE,)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    users, replacements = program.users(), dict[Node, Replacement]()
    for x, permutes in _of_one_value(sites):
        sent = dict.fromkeys(permutes)
        views = [u for u in users[x] if u.kind is Kind.VIEW and any(y in sent for y in u.operands)]
        if plan := exchange_plan(x, permutes, views, program.problem.ranks):
            replacements |= _replaced(x, permutes, views, plan)
    return replacements


def _of_one_value(sites: Sequence[Node]) -> list[tuple[Node, list[Node]]]:
    """(value, its permutes, several of them under one label)."""
    levels: dict[Any, list[Node]] = {}
    for p in sites:
        levels.setdefault((_value(p), p.label), []).append(p)
    return [(key[0], level) for key, level in levels.items() if key[0] is not None and len(level) > 1]


def _value(permute: Node) -> Node | None:
    """The one value sent by a permute, laid out or as it is; None for a layout of several values or of none."""
    (sent,) = permute.operands
    if sent.kind is not Kind.VIEW:
        return sent
    return sent.operands[0] if len(sent.operands) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangePlan:
    """pack: From x to the blocks sent. came: From the received blocks to each permute's result.

    kept: From the received blocks to the views' reads of x itself, at their places in x; None: not sent.
    """

    groups: Groups
    pack: Map
    came: list[Map]
    kept: Map | None


def exchange_plan(x: Node, permutes: list[Node], views: list[Node], ranks: int) -> ExchangePlan | None:
    """Return the plan; None unless the connected ranks form groups of equal size, above one rank."""
    sources = [np.array(p.sources) for p in permutes]
    readers = [np.flatnonzero(s >= 0) for s in sources]
    senders = [s[r] for s, r in zip(sources, readers, strict=True)]
    groups = components(ranks, np.concatenate(readers), np.concatenate(senders))
    if groups is None or groups.size == 1:
        return None
    filled = np.zeros((ranks, ranks), np.int64)
    slots = []
    for p, to, of in zip(permutes, readers, senders, strict=True):
        slots.append(filled[of, to])
        filled[of, to] += p.size
    sent_most = int(filled.max())
    rank, start, length = _read_beside(x, views, ranks)
    slot, kept_most = end_to_end(rank, length, ranks)
    if np.diagonal(filled).any() or not 0 < kept_most <= (groups.size - 1) * sent_most:
        kept_most = 0
    block = max(sent_most, kept_most)
    width = groups.size * block
    keys, taken, lengths, came = [], [], [], []
    for p, to, of, at in zip(permutes, readers, senders, slots, strict=True):
        begin = np.full(ranks, -1)
        begin[of] = of * width + groups.place[to] * block + at
        row, column, source, n = _pieces(p.operands[0], x, ranks)
        goes = begin[row] >= 0
        keys.append((begin[row] + column)[goes])
        taken.append(source[goes])
        lengths.append(n[goes])
        arrives = groups.place[of] * block + at
        came.append(maps.from_pieces(ranks, p.size, to * p.size, arrives, np.full_like(to, p.size)))
    kept = None
    if kept_most:
        mine = groups.place[rank] * block + slot
        keys.append(rank * width + mine)
        taken.append(start)
        lengths.append(length)
        kept = maps.from_pieces(ranks, x.size, rank * x.size + start, mine, length)
    joined = (np.concatenate(column) for column in (keys, taken, lengths))
    return ExchangePlan(groups=groups, pack=maps.from_pieces(ranks, width, *joined), came=came, kept=kept)


def _read_beside(x: Node, views: list[Node], ranks: int) -> tuple[Ints, Ints, Ints]:
    """(rank, start, length), sorted and disjoint: the views' reads of x on each rank."""
    read = [read_by(view, x, ranks) for view in views]
    if not read:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    rank, start, length = (np.concatenate(column) for column in zip(*read, strict=True))
    return map_algebra.union_of_intervals(rank, start, length, x.size)


def _pieces(sent: Node, x: Node, ranks: int) -> tuple[Ints, Ints, Ints, Ints]:
    """(rank, place in `sent`, source in x, length) of all nonzero pieces."""
    layout = sent.map if sent is not x else maps.identity(x.size)
    keys, sources = layout.spread(ranks)
    length = maps.run_lengths(keys, ranks * layout.size)
    some = sources >= 0
    return keys[some] // layout.size, keys[some] % layout.size, sources[some], length[some]


def _replaced(
    x: Node, permutes: list[Node], views: list[Node], plan: ExchangePlan
) -> dict[Node, Replacement]:
    """Each permute as a slice of one exchange, made once; the views read x from there, too."""

    @cache
    def whole(go: Callable[[Node], Node]) -> Node:
        packed = make_view([go(x)], plan.pack)
        return make_collective(Kind.ALL_TO_ALL, packed, plan.groups, permutes[0].label)

    def slice_of(map_: Map) -> Replacement:
        return lambda go: make_view([whole(go)], map_)

    def beside(view: Node, kept: Map) -> Replacement:
        return lambda go: rebuild(
            view, [make_view([whole(go)], kept) if y is x else go(y) for y in view.operands]
        )

    replacements = {p: slice_of(map_) for p, map_ in zip(permutes, plan.came, strict=True)}
    if plan.kept is not None:
        replacements |= {view: beside(view, plan.kept) for view in views}
    return replacements
