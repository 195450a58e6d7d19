"""The operations of the strategy language, as authors write them.

A strategy is a function `(io, p)`: `io.read(name, *index)` returns a value, `io.write(name, *index, value)` takes
one, `p` holds the Case's parameters. Sizes and tables are static; a table has one entry for all ranks or one row
per rank. Anything out of range is Rejected at the call, never clamped or wrapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import NoReturn, overload

import numpy as np

from overlayccl_core.program import effort, maps, nodes
from overlayccl_core.program.calls import make_call
from overlayccl_core.program.chunks import chunked, parallelize  # noqa: F401  they are words, too
from overlayccl_core.program.groups import Groups, groups_of, world
from overlayccl_core.program.heads import attend, attend_backward, combine  # noqa: F401  likewise
from overlayccl_core.program.kinds import Kind, NotApplicable, Reduction, Rejected
from overlayccl_core.program.recorder import Value, active, check_axes, dtype_of
from overlayccl_core.program.rowwise import RowAttr
from overlayccl_core.program.static import PerRank, check_rows, extremes, integers_of, per_rank

GroupList = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The strategies of a file and their roles: its last statement, read from the parsed tree.

    Attributes:
        developer: What practitioners write. Of several, the first that a deployment's library can call; the others
            are ordinary known ways.
        single_graph: The developer's collectives, unmerged, without boundaries, in an order that lets independent
            ones be in flight together; empty: none.
        ways: Pairs (file of ways, function (io, p, way)). Each way of the file is a strategy of the same name
            (`program/ways.py`) and may have one of the roles.
    """

    developer: str | tuple[str, ...]
    others: tuple[str, ...] = ()  # all other listed strategies
    ways: tuple[tuple[object, object], ...] = ()
    hand_bundled: str = ""  # independent calls of one kind joined into one; empty: none
    single_graph: str = ""


def not_applicable(reason: str) -> NoReturn:
    """Declare that this strategy has no meaning at this Case (one tier only, say); it is listed with the reason."""
    raise NotApplicable(reason)


# ------------------------------------------------------------------------------------------------- layout
def reshape(x: Value, shape: Sequence[int]) -> Value:
    """x in another shape of as many elements; one axis may be -1."""
    check_axes(shape)
    wanted = [int(n) for n in shape]
    if wanted.count(-1) == 1:
        rest = prod(n for n in wanted if n != -1)
        wanted[wanted.index(-1)] = x.node.size // rest if rest > 0 else 0
    if prod(wanted) != x.node.size or min(wanted, default=1) < 1:
        raise Rejected(f"reshape {x.shape} to {tuple(shape)}: the number of elements must stay {x.node.size}")
    return Value(x.node, tuple(wanted))


def flatten(x: Value) -> Value:
    """x with one axis."""
    return Value(x.node, (x.node.size,))


def permute_dims(x: Value, order: Sequence[int]) -> Value:
    """Axis i of the result is axis order[i] of x."""
    axes = tuple(int(i) for i in order)
    if sorted(axes) != list(range(len(x.shape))):
        raise Rejected(f"permute_dims: order must name each of the {len(x.shape)} axes once (got {axes})")
    node = nodes.make_view([x.node], maps.permuted(x.shape, axes))
    return Value(node, tuple(x.shape[i] for i in axes))


def slice_axis(x: Value, dim: int, start: PerRank, length: int) -> Value:
    """`length` elements of an axis from `start` on; start: one int, or one per rank."""
    outer, extent, inner = _split_at(x, dim)
    first = per_rank(start, "slice_axis start")
    if length < 1 or first.min() < 0 or first.max() + length > extent:
        raise Rejected(
            f"slice_axis [{first.min()}, {first.max() + length}) of an axis of {extent}: must lie inside it"
        )
    moved = maps.sliced(tuple(first.tolist()), length, outer, extent, inner)
    return _along(x, dim, length, moved)


def pad(x: Value, dim: int, before: PerRank, total: int) -> Value:
    """Zeros around x so that the axis has `total` elements, `before` of them in front: one int or one per rank."""
    outer, extent, inner = _split_at(x, dim)
    first = per_rank(before, "pad before")
    if first.min() < 0 or first.max() + extent > total:
        raise Rejected(f"pad {extent} elements to {total} after {first.max()}: does not fit")
    return _along(x, dim, total, maps.padded(tuple(first.tolist()), total, outer, extent, inner))


def leading(x: Value, dim: int, count: PerRank) -> Value:
    """The first `count` elements of an axis and zeros behind them; count: one int, or one per rank."""
    outer, extent, inner = _split_at(x, dim)
    kept = per_rank(count, "leading count")
    if kept.min() < 0 or kept.max() > extent:
        raise Rejected(
            f"leading {extremes(kept)} elements of an axis of {extent}: counts must lie in 0..{extent}"
        )
    return _along(x, dim, extent, maps.along_axis(maps.leading(kept, extent), outer, extent, inner))


def index_select(x: Value, table: Sequence[int] | Sequence[Sequence[int]], dim: int = 0) -> Value:
    """Elements of an axis by index; table: int[n], or int[N][n] for one row per rank; -1 gives zeros."""
    outer, extent, inner = _split_at(x, dim)
    full = np.atleast_2d(integers_of(table, "index_select table"))
    check_rows(len(full), "index_select table")
    if full.size == 0 or full.min() < -1 or full.max() >= extent:
        raise Rejected(f"index_select: entries must lie in -1..{extent - 1} (got {extremes(full)})")
    return _along(x, dim, full.shape[1], maps.along_axis(maps.from_table(full), outer, extent, inner))


def concat(values: Sequence[Value], dim: int = 0) -> Value:
    """Values joined along an axis; the other axes must agree."""
    if not values:
        raise Rejected("concat needs at least one value")
    effort.spend(effort.OPERAND * len(values))
    shapes = tuple(v.shape for v in values)
    rest = {(len(s), s[:dim], s[dim + 1 :]) for s in shapes}
    if len(rest) != 1 or not 0 <= dim < len(shapes[0]):
        raise Rejected(f"concat along axis {dim}: the other axes must agree (got {sorted(set(shapes))[:4]})")
    node = nodes.make_view([v.node for v in values], maps.concatenated(shapes, dim))
    return Value(node, (*shapes[0][:dim], sum(s[dim] for s in shapes), *shapes[0][dim + 1 :]))


def split(x: Value, parts: int | Sequence[int], dim: int = 0) -> list[Value]:
    """x cut along an axis, into `parts` equal parts or into parts of the given lengths."""
    extent = _split_at(x, dim)[1]
    if isinstance(parts, int):
        if parts < 1 or extent % parts:
            raise Rejected(f"split an axis of {extent} into {parts} parts: must divide")
        parts = [extent // parts] * parts
    if sum(parts) != extent:
        raise Rejected(f"split an axis of {extent} into lengths that add up to {sum(parts)}: must be equal")
    ends = np.cumsum([0, *parts]).tolist()
    return [slice_axis(x, dim, a, b - a) for a, b in pairwise(ends)]


def broadcast(x: Value, dim: int, count: int) -> Value:
    """A new axis of `count` equal copies before axis `dim`."""
    if not 0 <= dim <= len(x.shape) or count < 1:
        raise Rejected(f"broadcast: axis {dim} of {len(x.shape)} and count {count} must be in range")
    outer, inner = prod(x.shape[:dim]), prod(x.shape[dim:])
    axis = maps.copies(1, count)
    node = nodes.make_view([x.node], maps.along_axis(axis, outer, 1, inner))
    return Value(node, (*x.shape[:dim], count, *x.shape[dim:]))


def zeros(shape: Sequence[int], dtype: str = "float32") -> Value:
    """Zeros on every rank."""
    check_axes(shape)
    wanted = tuple(int(n) for n in shape)
    if not wanted or min(wanted) < 1:
        raise Rejected(f"zeros: every axis must have elements (got {wanted})")
    return Value(nodes.make_view([], maps.zeros(prod(wanted)), dtype_of(dtype)), wanted)


def select(x: Value, mask: Sequence[int | bool]) -> Value:
    """x on the ranks where mask[rank], zeros on the others (even in place of NaN)."""
    check_rows(len(mask), "select mask", whole=True)
    return Value(nodes.make_view([x.node], maps.on_ranks(mask, x.node.size)), x.shape)


# --------------------------------------------------------------------------------------------- arithmetic
def add(x: Value, y: Value) -> Value:
    """x + y of one shape or, in a nonlinear Problem, of (.., n) and (.., 1)."""
    if not active().problem.linear:
        return _each("add", x, y)
    if x.shape != y.shape:
        raise Rejected(f"add: shapes must agree (got {x.shape} and {y.shape})")
    return Value(nodes.make_sum(concat([flatten(x), flatten(y)]).node, 2), x.shape)


def sub(x: Value, y: Value) -> Value:
    """x - y of one shape or, in a nonlinear Problem, of (.., n) and (.., 1)."""
    return add(x, scale(y, -1)) if active().problem.linear else _each("sub", x, y)


def reduce_sum(x: Value, dim: int) -> Value:
    """The sum over an axis."""
    _split_at(x, dim)
    if dim and not active().problem.linear:
        return _over_axis("row_sum", x, dim)
    order = [dim] + [i for i in range(len(x.shape)) if i != dim]
    moved = permute_dims(x, order) if dim else x
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return Value(nodes.make_sum(moved.node, x.shape[dim]), shape or (1,))


def scale(x: Value, numerator: int, denominator: int = 1) -> Value:
    """x times an exact integer ratio: scale(x, 1, n) is x / n."""
    if denominator == 0:
        raise Rejected("scale: the denominator must not be 0")
    return Value(nodes.make_scale(x.node, Fraction(int(numerator), int(denominator))), x.shape)


def cast(x: Value, dtype: str) -> Value:
    """x in another floating point type."""
    return Value(nodes.make_cast(x.node, dtype_of(dtype)), x.shape)


# ------------------------------------------------------------------ only in Problems that are not linear
def mul(x: Value, y: Value) -> Value:
    """x * y of one shape, or of (.., n) and (.., 1)."""
    return _each("mul", x, y)


def div(x: Value, y: Value) -> Value:
    """x / y of one shape, or of (.., n) and (.., 1)."""
    return _each("div", x, y)


def maximum(x: Value, y: Value) -> Value:
    """The larger of x and y, of one shape, or of (.., n) and (.., 1)."""
    return _each("maximum", x, y)


def exp(x: Value) -> Value:
    """e to the power of x."""
    return _each("exp", x)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return _each("log", x)


def reduce_max(x: Value, dim: int) -> Value:
    """The maximum over an axis."""
    _split_at(x, dim)
    return _over_axis("row_max", x, dim)


def pick(x: Value, ids: Value, first: PerRank) -> Value:
    """x[.., ids[..] - first] of x (.., n), ids (..), or 0 if outside 0..n-1; first: one int or one per rank."""
    if x.shape[:-1] != ids.shape:
        raise Rejected(
            f"pick: the ids must have the shape {x.shape[:-1]}, one for each row (got {ids.shape})"
        )
    attr = RowAttr(name="pick", width=x.shape[-1], first=_ids_from(first, "pick"))
    return Value(nodes.make_rowwise(attr, [x.node, ids.node]), ids.shape)


def one_hot(ids: Value, first: PerRank, size: int, dtype: str = "float32") -> Value:
    """(.., size): 1 at ids[..] - first, if in 0..size-1, and 0 elsewhere; first: one int or one per rank."""
    if size < 1:
        raise Rejected(f"one_hot: size must be at least 1 (got {size})")
    attr = RowAttr(name="one_hot", width=size, first=_ids_from(first, "one_hot"))
    return Value(nodes.make_rowwise(attr, [ids.node], dtype_of(dtype)), (*ids.shape, size))


# -------------------------------------------------------------------------------------------- collectives
@overload
def all_reduce(x: Value, op: str = ..., groups: GroupList | None = ...) -> Value: ...
@overload
def all_reduce(x: Sequence[Value], op: str = ..., groups: GroupList | None = ...) -> list[Value]: ...
def all_reduce(
    x: Value | Sequence[Value], op: str = "sum", groups: GroupList | None = None
) -> Value | list[Value]:
    """The sum (or `max`) of x over the ranks of each group, on all of them; of each value of a list by one call."""
    if op not in tuple(Reduction):
        raise Rejected(f"all_reduce: op must be one of {[r.value for r in Reduction]} (got {op!r})")
    if isinstance(x, Value):
        return Value(_issue(Kind.ALL_REDUCE, x, _groups(groups), Reduction(op)), x.shape)
    values, recorder = list(x), active()
    if len({value.dtype for value in values}) != 1:
        dtypes = sorted({value.dtype for value in values})
        raise Rejected(f"all_reduce of a list: one call is of values of one dtype (got {dtypes}): cast them")
    operands = [value.node for value in values]
    made = make_call(Kind.ALL_REDUCE, operands, _groups(groups), recorder.label, Reduction(op))
    recorder.issue_call(made)
    return [Value(node, value.shape) for node, value in zip(made, values, strict=True)]


def all_gather(x: Value, dim: int = 0, groups: GroupList | None = None) -> Value:
    """x of every rank of the group, joined along an axis in group order."""
    _split_at(x, dim)
    members = _groups(groups)
    stacked = Value(_issue(Kind.ALL_GATHER, x, members), (members.size, *x.shape))
    return _merge_front(stacked, dim)


def reduce_scatter(x: Value, dim: int = 0, groups: GroupList | None = None) -> Value:
    """Block j of the axis, summed over the group, on the group's member j."""
    members = _groups(groups)
    blocks = _blocks_first(x, dim, members.size)
    return Value(_issue(Kind.REDUCE_SCATTER, blocks, members), blocks.shape[1:])


def all_to_all(x: Value, dim: int = 0, groups: GroupList | None = None) -> Value:
    """Send block j of the axis to the group's member j, and join the received blocks along the same axis."""
    members = _groups(groups)
    blocks = _blocks_first(x, dim, members.size)
    return _merge_front(Value(_issue(Kind.ALL_TO_ALL, blocks, members), blocks.shape), dim)


def collective_permute(x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """Send x by pairs (source, destination), each rank at most once a side; ranks without a source get zeros."""
    ranks = active().problem.ranks
    sources = [-1] * ranks
    sent = {int(a) for a, _ in pairs}
    for a, b in pairs:
        if not (0 <= a < ranks and 0 <= b < ranks):
            raise Rejected(f"collective_permute: ranks must lie in 0..{ranks - 1} (got {(a, b)})")
        if sources[b] != -1:
            raise Rejected(f"collective_permute: rank {b} receives twice")
        sources[b] = int(a)
    if len(sent) != len(pairs):
        raise Rejected("collective_permute: a rank sends twice")
    recorder = active()
    return Value(recorder.issue(nodes.make_permute(x.node, sources, recorder.label)), x.shape)


def boundary() -> None:
    """End the current compiled graph."""
    active().boundary()


# ------------------------------------------------------------------------------------------------- pieces
def _issue(kind: Kind, x: Value, groups: Groups, reduction: Reduction = Reduction.SUM) -> nodes.Node:
    recorder = active()
    return recorder.issue(nodes.make_collective(kind, x.node, groups, recorder.label, reduction))


def _groups(groups: GroupList | None) -> Groups:
    ranks = active().problem.ranks
    return world(ranks) if groups is None else groups_of(groups, ranks)


def _split_at(x: Value, dim: int) -> tuple[int, int, int]:
    """(elements before, extent, elements after) of an axis."""
    if not 0 <= dim < len(x.shape):
        raise Rejected(f"axis {dim} of a value with {len(x.shape)} axes: must lie in 0..{len(x.shape) - 1}")
    return prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])


def _along(x: Value, dim: int, extent: int, moved: maps.Map) -> Value:
    return Value(nodes.make_view([x.node], moved), (*x.shape[:dim], extent, *x.shape[dim + 1 :]))


def _blocks_first(x: Value, dim: int, g: int) -> Value:
    """(.., extent, ..) -> (g, .., extent / g, ..)."""
    extent = _split_at(x, dim)[1]
    if extent % g:
        raise Rejected(f"an axis of {extent} must divide over {g} ranks: pad it to a multiple of {g}")
    cut = Value(x.node, (*x.shape[:dim], g, extent // g, *x.shape[dim + 1 :]))
    return permute_dims(cut, [dim] + [i for i in range(len(cut.shape)) if i != dim]) if dim else cut


def _each(name: str, *values: Value) -> Value:
    """An elementwise operation; a last axis of 1 counts for all elements of the other's."""
    shape = max((x.shape for x in values), key=prod)
    narrow = (*shape[:-1], 1)
    if any(x.shape not in (shape, narrow) for x in values):
        raise Rejected(
            f"{name}: shapes must agree, or one have a last axis of 1 (got"
            f" {' and '.join(str(x.shape) for x in values)}): reshape it"
        )
    width = 1 if all(x.shape == shape for x in values) else shape[-1]
    return Value(nodes.make_rowwise(RowAttr(name=name, width=width), [x.node for x in values]), shape)


def _over_axis(name: str, x: Value, dim: int) -> Value:
    """An axis reduced to one element."""
    rest = [i for i in range(len(x.shape)) if i != dim]
    rows = x if dim == len(x.shape) - 1 else permute_dims(x, [*rest, dim])
    node = nodes.make_rowwise(RowAttr(name=name, width=x.shape[dim]), [rows.node])
    return Value(node, tuple(x.shape[i] for i in rest) or (1,))


def _ids_from(first: PerRank, what: str) -> tuple[int, ...]:
    return tuple(per_rank(first, f"{what} first").tolist())


def _merge_front(stacked: Value, dim: int) -> Value:
    """(g, .., extent, ..) -> (.., g * extent, ..)."""
    g, *shape = stacked.shape
    order = [i + 1 for i in range(dim)] + [0] + [i + 1 for i in range(dim, len(shape))]
    moved = permute_dims(stacked, order) if dim else stacked
    return Value(moved.node, (*shape[:dim], g * shape[dim], *shape[dim + 1 :]))
