"""Each layout operation is the NumPy function of its name; each operation refuses what is out of range."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core.program import language as ops
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.recorder import IO, Value, recording
from tests.small_problems import exchange

RANKS = 4


def layout(build: Callable[[Value], Value], shape: tuple[int, ...]) -> np.ndarray:
    """What a layout function does to the indices 0, 1, ... of its operand, [ranks, *result shape]; -1 for zero."""
    problem = exchange(RANKS, {"x": shape}, {"y": (1,)})
    with recording(problem) as recorder:
        value = build(IO(recorder).read("x"))
    node: Node = value.node
    table = np.arange(node.size)[None] if node.kind is Kind.INPUT else node.map.table()
    return np.broadcast_to(table, (RANKS, node.size)).reshape(RANKS, *value.shape)


def indices(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@settings(max_examples=80, deadline=None)
@given(st.data(), shapes)
def test_permute_dims_is_transpose(data: st.DataObject, shape: tuple[int, ...]) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    got = layout(lambda x: ops.permute_dims(x, order), shape)
    assert (got == indices(shape).transpose(order)).all()


@settings(max_examples=80, deadline=None)
@given(st.data(), shapes)
def test_slice_axis_takes_its_window_on_each_rank(data: st.DataObject, shape: tuple[int, ...]) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    length = data.draw(st.integers(1, shape[dim]))
    starts = data.draw(st.lists(st.integers(0, shape[dim] - length), min_size=RANKS, max_size=RANKS))
    got = layout(lambda x: ops.slice_axis(x, dim, starts, length), shape)
    for rank, start in enumerate(starts):
        assert (got[rank] == indices(shape).take(range(start, start + length), dim)).all()


@settings(max_examples=80, deadline=None)
@given(st.data(), shapes)
def test_pad_is_numpy_pad(data: st.DataObject, shape: tuple[int, ...]) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    before, after = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    widths = [(before, after) if i == dim else (0, 0) for i in range(len(shape))]
    got = layout(lambda x: ops.pad(x, dim, before, before + shape[dim] + after), shape)
    assert (got == np.pad(indices(shape), widths, constant_values=-1)).all()


@settings(max_examples=80, deadline=None)
@given(st.data(), shapes)
def test_index_select_takes_rows_and_minus_one_is_zero(data: st.DataObject, shape: tuple[int, ...]) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    table = data.draw(st.lists(st.integers(-1, shape[dim] - 1), min_size=1, max_size=5))
    got = layout(lambda x: ops.index_select(x, table, dim), shape)[0]
    want = np.where(
        np.expand_dims(np.array(table) < 0, tuple(i for i in range(len(shape)) if i != dim)),
        -1,
        indices(shape).take(np.maximum(table, 0), dim),
    )
    assert (got == want).all()


@settings(max_examples=40, deadline=None)
@given(st.data(), shapes)
def test_concat_split_and_broadcast_are_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    both = layout(lambda x: ops.concat([x, ops.reshape(x, shape)], dim), shape)[0]
    assert (both == np.concatenate([indices(shape)] * 2, dim)).all()
    parts = layout(lambda x: ops.concat(ops.split(x, shape[dim], dim)[::-1], dim), shape)[0]
    assert (parts == np.flip(indices(shape), dim)).all()
    copies = layout(lambda x: ops.broadcast(x, dim, 3), shape)[0]
    assert (copies == np.repeat(np.expand_dims(indices(shape), dim), 3, dim)).all()


def test_select_keeps_the_value_on_the_masked_ranks_only() -> None:
    got = layout(lambda x: ops.select(x, [1, 0, 0, 1]), (3,))
    assert (got == [[0, 1, 2], [-1] * 3, [-1] * 3, [0, 1, 2]]).all()


@given(st.data())
def test_leading_elements_of_an_axis(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    dim = data.draw(st.integers(0, len(shape) - 1))
    counts = data.draw(st.lists(st.integers(0, shape[dim]), min_size=RANKS, max_size=RANKS))
    got = layout(lambda x: ops.leading(x, dim, counts), shape)
    for rank, count in enumerate(counts):
        kept = np.moveaxis(indices(shape).copy(), dim, 0)
        kept[count:] = -1
        assert (got[rank] == np.moveaxis(kept, 0, dim)).all()
    alike = layout(lambda x: ops.leading(x, dim, counts[0]), shape)
    assert (alike[1] == got[0]).all()


PERMUTE_TWICE = [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: ops.slice_axis(x, 0, -1, 2), "must lie inside"),
        (lambda x: ops.slice_axis(x, 0, [0, 0, 0, 7], 2), "must lie inside"),
        (lambda x: ops.slice_axis(x, 0, [0, 0, 0], 2), "start: .*4 .got 3"),
        (lambda x: ops.slice_axis(x, 2, 0, 1), r"axis 2 .*in 0\.\.0"),
        (lambda x: ops.pad(x, 0, 3, 9), "does not fit"),
        (lambda x: ops.leading(x, 0, 9), r"9\.\.9 .*in 0\.\.8"),
        (lambda x: ops.leading(x, 0, [0, 1, -1, 2]), r"leading -1\.\.2 .*0\.\.8"),
        (lambda x: ops.leading(x, 0, [1, 2, 3]), "count: .*4 .got 3"),
        (lambda x: ops.index_select(x, [0, 8]), r"in -1\.\.7 .got 0\.\.8"),
        (lambda x: ops.index_select(x, [-2]), "entries must lie"),
        (lambda x: ops.index_select(x, [[0], [1]]), "table: .*4 .got 2"),
        (lambda x: ops.index_select(x, [[0], [1, 2], [3], [4]]), "equally long"),
        (lambda x: ops.select(x, [1, 0]), "mask: .*4 .got 2"),
        (lambda x: ops.reshape(x, (3, 3)), r"\(3, 3\): .*must stay 8"),
        (lambda x: ops.reshape(x, (-1, -1)), "number of elements"),
        (lambda x: ops.permute_dims(x, [1]), "must name each"),
        (lambda x: ops.concat([]), "at least one"),
        (lambda x: ops.concat([x, ops.reshape(x, (2, 4))]), "other axes must agree"),
        (lambda x: ops.split(x, 3), "must divide"),
        (lambda x: ops.split(x, [3, 4]), "must be equal"),
        (lambda x: ops.add(x, ops.slice_axis(x, 0, 0, 4)), "shapes must agree"),
        (lambda x: ops.scale(x, 1, 0), "must not be 0"),
        (lambda x: ops.cast(x, "int32"), "dtype must be one of"),
        (lambda x: ops.concat([x, ops.cast(x, "bfloat16")]), "cast to one dtype"),
        (lambda x: ops.all_reduce(x, "product"), "op must be one of"),
        (lambda x: ops.all_reduce(x, groups=[[0, 1], [2]]), "partition"),
        (lambda x: ops.all_reduce(x, groups=[[0, 1], [1, 2]]), "partition"),
        (lambda x: ops.reduce_scatter(ops.slice_axis(x, 0, 0, 6)), "must divide over 4 ranks"),
        (lambda x: ops.all_to_all(ops.slice_axis(x, 0, 0, 6)), "must divide over 4 ranks"),
        (lambda x: ops.collective_permute(x, PERMUTE_TWICE), "sends twice"),
        (lambda x: ops.collective_permute(x, [(1, 0), (2, 0)]), "receives twice"),
        (lambda x: ops.collective_permute(x, [(0, 4)]), "ranks must lie"),
    ],
)
def test_what_is_out_of_range_is_rejected_where_it_is_written(
    build: Callable[[Value], Value], message: str
) -> None:
    with pytest.raises(Rejected, match=message):
        layout(build, (8,))


def test_operations_outside_of_a_trace_say_so() -> None:
    with pytest.raises(RuntimeError, match="inside trace"):
        ops.boundary()
