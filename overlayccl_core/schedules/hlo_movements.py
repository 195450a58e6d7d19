"""The movements of HLO: each one instruction, on all ranks, in the words of the strategy language.

https://openxla.org/xla/operation_semantics says what they do. HLO's shapes are logical: the order of dimensions in
memory, and its tiles, matter to `bitcast` alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program import language
from overlayccl_core.program.recorder import Value
from overlayccl_core.schedules.hlo_text import ArrayShape, Instruction
from overlayccl_core.schedules.hlo_values import Array, Computes, Holed, Known, check_known, moved

Operation: TypeAlias = Callable[[Instruction, ArrayShape, Sequence[Array], Sequence[ArrayShape]], Array]
"""(instruction, its shape, operands, their shapes) -> result."""

_BOUNDS = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")


def _reshape(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    return moved(lambda value: Value(value.node, to.dims), held)


def _bitcast(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    """The same bytes: the elements in the order of memory stay."""
    of = shapes[0]
    if of.dtype != to.dtype:
        raise Computes(f"takes the bits of {of.dtype} as {to.dtype}")
    if of.tiles or to.tiles:
        sources = _same_places(of, to)
        return moved(lambda value: Value(_chosen(language.flatten(value), sources, 0).node, to.dims), held)
    major = tuple(reversed(to.minor_to_major))

    def move(value: Value) -> Value:
        in_memory = language.permute_dims(value, tuple(reversed(of.minor_to_major)))
        there = Value(in_memory.node, tuple(to.dims[d] for d in major))
        return language.permute_dims(there, [major.index(d) for d in range(len(major))])

    return moved(move, held)


def _same_places(of: ArrayShape, to: ArrayShape) -> NDArray[np.int64]:
    """For each element of `to` the element of `of` that lies in its place in memory."""
    there, here = _in_memory(of), _in_memory(to)
    places = np.flatnonzero(here >= 0)
    if places[-1] >= len(there) or there[places].min() < 0:
        raise Computes(f"takes padding of {of} as elements")
    sources = np.empty(len(places), np.int64)
    sources[here[places]] = there[places]
    return sources


def _in_memory(shape: ArrayShape) -> NDArray[np.int64]:
    """The element in each place of memory, -1 in padding: https://openxla.org/xla/tiled_layout."""
    check_known(1, prod(shape.dims))
    held = np.arange(prod(shape.dims)).reshape(shape.dims).transpose(tuple(reversed(shape.minor_to_major)))
    for tile in shape.tiles:
        held = held.reshape((*(1 for _ in tile[held.ndim :]), *held.shape))
        rest = held.ndim - len(tile)
        short = [(0, 0)] * rest + [(0, -n % t) for n, t in zip(held.shape[rest:], tile, strict=True)]
        check_known(1, prod(n + more for n, (_, more) in zip(held.shape, short, strict=True)))
        held = np.pad(held, short, constant_values=-1)
        cut = [n for whole, t in zip(held.shape[rest:], tile, strict=True) for n in (whole // t, t)]
        axes = [*range(rest), *range(rest, rest + len(cut), 2), *range(rest + 1, rest + len(cut), 2)]
        held = held.reshape((*held.shape[:rest], *cut)).transpose(axes)
    return held.ravel()


def _transpose(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    return moved(lambda value: language.permute_dims(value, x.integers("dimensions")), held)


def _broadcast(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    places = x.integers("dimensions")

    def move(value: Value) -> Value:
        order = sorted(range(len(places)), key=places.__getitem__)
        made = language.permute_dims(value, order) if order != [*range(len(places))] else value
        for d, extent in enumerate(to.dims):
            made = made if d in places else language.broadcast(made, d, extent)
        return made

    return moved(move, held)


def _concatenate(
    x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]
) -> Array:
    [dim] = x.integers("dimensions")
    return moved(lambda *values: language.concat(values, dim), held)


def _slice(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    bounds = [(int(a), int(b), int(c or 1)) for a, b, c in _BOUNDS.findall(x.attributes.get("slice", ""))]

    def move(value: Value) -> Value:
        for d, (a, b, step) in enumerate(bounds):
            if step == 1:
                value = language.slice_axis(value, d, a, b - a)
            else:
                value = _chosen(value, np.arange(a, check_known(1, b), step), d)
        return value

    return moved(move, held)


def _reverse(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    def move(value: Value) -> Value:
        for d in x.integers("dimensions"):
            value = _chosen(value, np.arange(check_known(1, value.shape[d]))[::-1], d)
        return value

    return moved(move, held)


def _pad(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    """padding=LOW_HIGH_INSIDE for each dimension, joined by x."""
    number = held[1].of_all() if isinstance(held[1], Known) else None
    axes = [[*map(int, one.split("_")), 0][:3] for one in x.attributes["padding"].split("x")]

    def move(value: Value) -> Value:
        for d, (low, high, inside) in enumerate(axes):
            extent, total = value.shape[d], to.dims[d]
            if inside == 0 <= min(low, high):
                value = language.pad(value, d, low, total) if low or high else value
                continue
            place = np.arange(check_known(1, total)) - low
            there = (place >= 0) & (place <= (extent - 1) * (inside + 1)) & (place % (inside + 1) == 0)
            value = _chosen(value, np.where(there, place // (inside + 1), -1), d)
        return value

    made, there = moved(move, held[:1]), moved(move, [Known(shapes[0].dims, np.ones((1, 1), np.bool_))])
    assert isinstance(there, Known)
    if number == 0 or there.rows.all():
        return made
    if isinstance(made, Known) and number is not None:
        return Known(to.dims, np.where(there.rows, made.rows, number))
    if not isinstance(made, Value) or number != -np.inf:
        raise Computes("pads with something other than 0")
    return Holed(made, there.rows[0])


def _maximum(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    """Parts padded with -inf, laid over one another: so compilers for TPUs concatenate."""
    a, b = held
    if not isinstance(a, Holed) or not isinstance(b, Holed) or (a.there & b.there).any():
        raise Computes("computes maximum")
    places = np.arange(check_known(1, prod(to.dims)))
    both = language.concat([language.flatten(a.value), language.flatten(b.value)])
    joined = _chosen(both, np.where(b.there, prod(to.dims) + places, places), 0)
    value, there = Value(joined.node, to.dims), a.there | b.there
    return value if there.all() else Holed(value, there)


def _dynamic_slice(
    x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]
) -> Array:
    starts = _starts(held[1:], shapes[0].dims, to.dims)

    def move(value: Value) -> Value:
        for d, first in enumerate(starts):
            value = language.slice_axis(value, d, first, to.dims[d])
        return value

    return moved(move, held[:1])


def _dynamic_update(
    x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]
) -> Array:
    starts = _starts(held[2:], shapes[0].dims, shapes[1].dims)
    return moved(lambda whole, part: _laid_over(whole, part, 0, starts), held[:2])


def _laid_over(whole: Value, part: Value, dim: int, starts: Sequence[Sequence[int]]) -> Value:
    """`whole` with `part` in the place of its elements from `starts` on; they agree in the axes before `dim`."""
    if dim == len(starts):
        return part
    extent, length = whole.shape[dim], part.shape[dim]
    if extent == length:
        return _laid_over(whole, part, dim + 1, starts)
    inside = language.slice_axis(whole, dim, starts[dim], length)
    new = _laid_over(inside, part, dim + 1, starts)
    table = np.tile(np.arange(check_known(len(starts[dim]), extent)), (len(starts[dim]), 1))
    for row, first in zip(table, starts[dim], strict=True):
        row[first : first + length] = extent + np.arange(length)
    return _chosen(language.concat([whole, new], dim), table, dim)


def _starts(held: Sequence[Array], whole: Sequence[int], part: Sequence[int]) -> list[list[int]]:
    """Of each axis, its first element on all ranks or on each: clamped, as HLO has it."""
    if len(held) != len(whole):
        raise Computes("has a vector of starts")
    return [
        np.clip(_scalar(x), 0, extent - length).tolist()
        for x, extent, length in zip(held, whole, part, strict=True)
    ]


def _scalar(x: Array) -> list[int]:
    """A number known on each rank."""
    if not isinstance(x, Known):
        raise Computes("starts where data say")
    return x.of_each_rank()


def _gather(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    """Windows of slice_sizes, which begin where the known indices say: clamped, as HLO has it."""
    table, sizes, of = held[1], x.integers("slice_sizes"), shapes[0].dims
    if not isinstance(table, Known) or "operand_batching_dims" in x.attributes:
        raise Computes("gathers by indices that are data, or in batches")
    vector, offsets, rows = int(x.attributes["index_vector_dim"]), x.integers("offset_dims"), len(table.rows)
    check_known(rows, prod(to.dims))
    first = (
        np.broadcast_to(table.rows, (rows, prod(table.shape))).reshape(rows, *table.shape).astype(np.int64)
    )
    first = np.moveaxis(first, vector + 1, -1) if vector < len(table.shape) else first[..., None]
    strides = [prod(of[d + 1 :]) for d in range(len(of))]
    sources = np.zeros((rows, *to.dims), np.int64)
    for k, d in enumerate(x.integers("start_index_map")):
        begins = np.clip(first[..., k], 0, of[d] - sizes[d]) * strides[d]
        sources += np.expand_dims(begins, tuple(1 + at for at in offsets))
    windows = [d for d in range(len(of)) if d not in x.integers("collapsed_slice_dims")]
    for at, d in zip(offsets, windows, strict=True):
        behind = [1] * (len(to.dims) - at - 1)
        sources += (np.arange(sizes[d]) * strides[d]).reshape(-1, *behind)

    def move(value: Value) -> Value:
        return Value(_chosen(language.flatten(value), sources.reshape(rows, -1), 0).node, to.dims)

    return moved(move, held[:1])


def _select(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    mask, yes, no = held
    if not isinstance(mask, Known):
        raise Computes("selects by data")
    if isinstance(yes, Known) and isinstance(no, Known):
        return Known(to.dims, np.where(mask.rows, yes.rows, no.rows))
    size = prod(to.dims)

    def move(first: Value, second: Value) -> Value:
        both = language.concat([language.flatten(first), language.flatten(second)])
        if mask.rows.shape[1] == 1:
            chosen = language.slice_axis(both, 0, [0 if m else size for m in mask.of_each_rank()], size)
        else:
            places = np.arange(check_known(len(mask.rows), size))
            chosen = _chosen(both, np.where(mask.rows, places, size + places), 0)
        return Value(chosen.node, to.dims)

    return moved(move, (yes, no))


def _chosen(value: Value, table: NDArray[np.int64], dim: int) -> Value:
    """Elements of an axis by index, on all ranks or, of a table with rows, on each."""
    return language.index_select(value, table.tolist(), dim)


MOVEMENTS: Mapping[str, Operation] = {
    **{"reshape": _reshape, "bitcast": _bitcast, "transpose": _transpose, "broadcast": _broadcast},
    **{"concatenate": _concatenate, "slice": _slice, "reverse": _reverse, "pad": _pad, "gather": _gather},
    **{"dynamic-slice": _dynamic_slice, "dynamic-update-slice": _dynamic_update, "select": _select},
    "maximum": _maximum,
}
