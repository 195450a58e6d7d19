"""Facts for rewrites: the ranks with equal copies of a value, and the elements read by each of its users.

A fact depends on the number of ranks, unknown to a node: the node keeps it under that number.
"""

import numpy as np

from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.map_algebra import compose, split_sources, union_of_intervals
from overlayccl_core.program.maps import Ints, leading
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.program import Program


def value_numbers(x: Node, ranks: int) -> Ints:
    """int[ranks]: equal numbers mean provably equal values of x on those ranks (numbers of one node only)."""
    key = ("value numbers", ranks)
    known = {y for y in topological([x]) if key in y.facts}
    for y in topological([x], known):
        y.facts[key] = _numbered(y, [z.facts[key] for z in y.operands], ranks)
    return x.facts[key]  # type: ignore[no-any-return]


def _numbered(x: Node, below: list[Ints], ranks: int) -> Ints:
    """Number the ranks by everything their values are made of."""
    match x.kind:
        case Kind.INPUT:
            return np.zeros(ranks, np.int64) if x.attr.equal else np.arange(ranks)
        case Kind.VIEW:
            return _number(ranks, *below, _map_rows(x, ranks))
        case Kind.SCALE | Kind.SUM | Kind.CAST:
            return below[0]
        case Kind.ROWWISE:
            return _number(ranks, *below, np.resize(np.array(x.row.first or (0,)), ranks))
        case Kind.COLLECTIVE_PERMUTE:
            source = np.array(x.sources)
            return _number(ranks, np.where(source >= 0, below[0][source], -1))
    members = below[0][x.groups.array]  # [groups, g]
    if x.kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER):
        members = np.sort(members, axis=1)
    _, group_class = np.unique(members, axis=0, return_inverse=True)
    mine = group_class.ravel()[x.groups.group]
    if x.kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL):
        return _number(ranks, mine, x.groups.place)
    return _number(ranks, mine)


def _number(ranks: int, *columns: Ints) -> Ints:
    if not columns:
        return np.zeros(ranks, np.int64)
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].ravel()


def _map_rows(x: Node, ranks: int) -> Ints:
    """Equal numbers: equal rows of a view's map."""
    if x.map.rows == 1:
        return np.zeros(ranks, np.int64)
    return np.unique(np.array(x.map.row_digests), return_inverse=True)[1].ravel()


def equal_in_groups(x: Node, groups: Groups) -> bool:
    """True if the members of every group provably hold the same value of x."""
    numbers = value_numbers(x, groups.ranks)[groups.array]
    return bool((numbers == numbers[:, :1]).all())


def reads(program: Program, x: Node, users: dict[Node, list[Node]]) -> tuple[Ints, Ints, Ints] | None:
    """Return the sorted, disjoint stretches (rank, start, length) of x read by each rank; None if it may be all.

    Nothing reads the invalid part of an output.

    Args:
        users: program.users(), made once for many calls.
    """
    if x in program.outputs.values() or not users[x] or any(u.kind is not Kind.VIEW for u in users[x]):
        return None
    ranks = program.problem.ranks
    read = [read_by(u, x, ranks, valid_of(program, u, users)) for u in users[x]]
    rank, start, length = (np.concatenate(column) for column in zip(*read, strict=True))
    return union_of_intervals(rank, start, length, x.size)


def valid_of(program: Program, x: Node, users: dict[Node, list[Node]]) -> tuple[int, ...] | None:
    """Number of wanted leading elements of x on each rank; None: all, as of a value that is no output."""
    if users[x]:
        return None
    valid = [program.problem.outputs[port].valid for port, y in program.outputs.items() if y is x]
    counts = [v for v in valid if v is not None]
    return tuple(map(max, *counts, counts[0])) if counts and len(counts) == len(valid) else None


def read_by(view: Node, x: Node, ranks: int, valid: tuple[int, ...] | None = None) -> tuple[Ints, Ints, Ints]:
    """Return the sorted, disjoint stretches (rank, start, length) of its operand x read by a view.

    Args:
        valid: Number of wanted leading elements of the view on each rank (None: all).
    """
    base = sum(y.size for y in view.operands[: view.operands.index(x)])
    layout = view.map if valid is None else compose(leading(valid, view.size), view.map)
    row, _, start, length = split_sources(layout, np.array([base, base + x.size]))
    mine = (start >= base) & (start < base + x.size)
    row, start, length = union_of_intervals(row[mine], start[mine] - base, length[mine], x.size)
    if layout.rows == 1:  # the union first, then one copy for every rank
        return (np.repeat(np.arange(ranks), len(start)), np.tile(start, ranks), np.tile(length, ranks))
    return row, start, length
