"""The meaning of a Program: every value on all ranks at once, in NumPy, in any arithmetic of `arithmetics.py`.

A value is held once for each class of ranks with equal values, so a gathered buffer takes 1/N of its size, and a
group of equal members is evaluated once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.program.arithmetics import Arithmetic, Array
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, Outputs, Port, topological

MAX_HELD_BYTES = 2**29  # of one value: two of them and their result stay within 1.5 GiB
WORD_BYTES = 8
AT_ONCE = 2**17  # words (1 MiB) moved in one step: all at once took 1.6 times as long (`benchmarks proof`)

Indices = NDArray[np.int64]


class TooLarge(Exception):
    """Evaluation does not fit the budget."""


@dataclass(frozen=True, slots=True)
class RankData:
    """data[K, size]: the different values; row[N]: number of each rank's value."""

    data: Array
    row: Indices

    def on(self, rank: int) -> Array:
        """[size]: the value of one rank."""
        return self.data[self.row[rank]]  # type: ignore[no-any-return]

    def on_all(self) -> Array:
        """[N, size]: the values of all ranks."""
        return self.data[self.row]


def evaluate(
    outputs: Outputs, inputs: Mapping[Port, Array], arithmetic: Arithmetic, ranks: int
) -> tuple[dict[Port, RankData], int]:
    """Evaluate outputs on all ranks; a value is freed after its last use.

    Args:
        inputs: port -> [K, size] in the arithmetic's dtype, with K = ranks, or 1 if all hold the same.
    Returns:
        (port -> values on the ranks, largest bytes alive at once).
    Raises:
        TooLarge: A value of more than MAX_HELD_BYTES would be allocated.
    """
    order = topological(outputs.values())
    last = {y: i for i, x in enumerate(order) for y in x.operands}
    kept = set(outputs.values())
    held: dict[Node, RankData] = {}
    live = peak = 0
    for i, x in enumerate(order):
        held[x] = _apply(x, [held[y] for y in x.operands], inputs, arithmetic, ranks)
        live += held[x].data.nbytes
        peak = max(peak, live)
        for y in dict.fromkeys(x.operands):
            if last[y] == i and y not in kept:
                live -= held.pop(y).data.nbytes
    return {port: held[x] for port, x in outputs.items()}, peak


def guard(elements: int) -> None:
    """Raise TooLarge if so many words would be allocated for one value."""
    if elements * WORD_BYTES > MAX_HELD_BYTES:
        raise TooLarge(
            f"a value of {elements * WORD_BYTES / MIB:.0f} MiB on all ranks (limit {MAX_HELD_BYTES / MIB:.0f} MiB)"
        )


def _apply(
    x: Node, operands: list[RankData], inputs: Mapping[Port, Array], arithmetic: Arithmetic, ranks: int
) -> RankData:
    match x.kind:
        case Kind.INPUT:
            data = inputs[x.port]
            return RankData(data, np.arange(ranks) if len(data) == ranks else np.zeros(ranks, np.int64))
        case Kind.VIEW:
            return _view(x, operands, arithmetic, ranks)
        case Kind.SCALE:
            return RankData(arithmetic.scale(operands[0].data, x), operands[0].row)
        case Kind.SUM:
            return RankData(arithmetic.add_blocks(operands[0].data, x), operands[0].row)
        case Kind.CAST:
            return RankData(arithmetic.cast(operands[0].data, x), operands[0].row)
        case Kind.ROWWISE:
            return _rowwise(x, operands, arithmetic, ranks)
        case Kind.COLLECTIVE_PERMUTE:
            return _permute(x, operands[0])
        case _:
            return _grouped(x, operands[0], arithmetic)


def _view(x: Node, operands: list[RankData], arithmetic: Arithmetic, ranks: int) -> RankData:
    if not operands:
        return RankData(np.zeros((1, x.size), arithmetic.dtype(x.dtype)), np.zeros(ranks, np.int64))
    if x.map.rows == 1:
        row, holder = _combined([a.row for a in operands])
    else:
        row, holder = np.arange(ranks), np.arange(ranks)
    guard(len(holder) * x.size)
    data = np.empty((len(holder), x.size), operands[0].data.dtype)
    at_once = max(1, AT_ONCE // max(x.size, sum(a.data.shape[1] for a in operands)))
    table = x.map.table() if x.map.rows == 1 else None
    for i in range(0, len(holder), at_once):
        ranks_here = holder[i : i + at_once]
        data[i : i + at_once] = _taken(
            [a.data for a in operands],
            [a.row[ranks_here] for a in operands],
            x.map.table(i, i + len(ranks_here)) if table is None else table,
        )
    return RankData(data, row)


def _rowwise(x: Node, operands: list[RankData], arithmetic: Arithmetic, ranks: int) -> RankData:
    first = np.array(x.row.first or (0,), np.int64)
    if len(first) == 1:
        row, holder = _combined([a.row for a in operands])
        first = np.repeat(first, len(holder))
    else:
        row, holder = np.arange(ranks), np.arange(ranks)
    guard(len(holder) * max(x.size, *(a.data.shape[1] for a in operands)))
    return RankData(arithmetic.rowwise([_by(a, holder) for a in operands], first, x), row)


def _by(a: RankData, holder: Indices) -> Array:
    """The values of these ranks: a single value for all stays single, and values in this order are not copied."""
    pick = a.row[holder]
    return a.data if len(a.data) == 1 or np.array_equal(pick, np.arange(len(a.data))) else a.data[pick]


def _taken(operands: list[Array], rows: list[Indices], table: Indices) -> Array:
    """Element table[r, i] of the operands' rows r laid end to end, 0 for ZERO."""
    if len(operands) == 1:
        joined, pick = operands[0], rows[0]
    else:
        joined = np.concatenate([a[r] for a, r in zip(operands, rows, strict=True)], 1)
        pick = np.arange(len(joined))
    taken: Array = joined.take(pick[:, None] * joined.shape[1] + table, mode="wrap")
    return np.where(table < 0, taken.dtype.type(0), taken) if table.min() < 0 else taken


def _combined(rows: list[Indices]) -> tuple[Indices, Indices]:
    """Classes of ranks equal in all rows: (class of each rank [N], a rank of each class)."""
    return classes(list(zip(*(row.tolist() for row in rows), strict=True)))


def classes(keys: Sequence[tuple[int, ...]]) -> tuple[Indices, Indices]:
    """(class of each key, the first of each class). For few keys NumPy takes far longer than a dict."""
    one: dict[tuple[int, ...], int] = {}
    for i, key in enumerate(keys):
        one.setdefault(key, i)
    number = {key: c for c, key in enumerate(one)}
    return np.array([number[key] for key in keys]), np.array(list(one.values()))


def _permute(x: Node, a: RankData) -> RankData:
    source = np.array(x.sources)
    if (source >= 0).all():
        return RankData(a.data, a.row[source])
    zero = np.zeros((1, a.data.shape[1]), a.data.dtype)
    return RankData(np.concatenate([a.data, zero]), np.where(source < 0, len(a.data), a.row[source]))


def _grouped(x: Node, a: RankData, arithmetic: Arithmetic) -> RankData:
    """Groups with equal members are evaluated once."""
    groups = x.groups
    g = groups.size
    members, group_class = _distinct_rows(a.row[groups.array])
    of_rank = group_class[groups.group]
    each_rank = of_rank * g + groups.place
    guard(len(members) * x.size * (1 if x.kind in (Kind.ALL_GATHER, Kind.ALL_REDUCE) else g))
    match x.kind:
        case Kind.ALL_GATHER:
            return RankData(a.data[members].reshape(len(members), -1), of_rank)
        case Kind.ALL_TO_ALL:
            blocks = a.data[members].reshape(len(members), g, g, -1).swapaxes(1, 2)
            return RankData(blocks.reshape(len(members) * g, -1), each_rank)
        case Kind.REDUCE_SCATTER:
            return RankData(arithmetic.combine(a.data, members, x).reshape(len(members) * g, -1), each_rank)
        case _:
            return RankData(arithmetic.combine(a.data, members, x), of_rank)


def _distinct_rows(table: Indices) -> tuple[Indices, Indices]:
    """(the different rows of a table, number of each row among them)."""
    which, one = classes([tuple(row) for row in table.tolist()])
    return table[one], which
