"""View plans: each form, run in NumPy as it is meant, gives what the map says."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core.program import maps
from overlayccl_core.program.nodes import Node, make_input, make_view
from overlayccl_core.program.view_plan import Layout, ViewPlan, view_plan

RANKS = 3


def inputs(*sizes: int) -> list[Node]:
    return [make_input(("x", i), equal=False, size=n) for i, n in enumerate(sizes)]


def run(plan: ViewPlan, operands: list[np.ndarray], rank: int, size: int) -> np.ndarray:
    """What the emitted statement of a plan does on one rank."""
    joined = np.concatenate(operands) if operands else np.zeros(0)
    match plan.layout:
        case Layout.ZEROS:
            return np.zeros(size)
        case Layout.REPEAT:
            return np.tile(joined, plan.repeat)
        case Layout.ALIAS | Layout.PIECES:
            pieces = plan.pieces[rank if len(plan.pieces) > 1 else 0]
            parts = [
                np.zeros(p.length) if p.operand < 0 else operands[p.operand][p.start :][: p.length]
                for p in pieces
            ]
            return np.concatenate(parts)
        case Layout.RADIX:
            x = joined.reshape(plan.shape)
            for axis, (start, extent) in enumerate(zip(plan.starts, plan.extents, strict=True)):
                first = start[rank if len(start) > 1 else 0]
                x = x.take(range(first, first + extent), axis)
            return x.transpose(plan.order).ravel()
        case Layout.ROWS:
            table = np.concatenate(
                [
                    np.arange(s, s + n) if s >= 0 else np.full(n, -1)
                    for s, n in plan.rows[rank if len(plan.rows) > 1 else 0]
                ]
            )
            rows = joined.reshape(-1, plan.width)
            return np.where(table[:, None] < 0, 0, rows[np.maximum(table, 0)]).ravel()


def check(node: Node) -> Layout:
    plan = view_plan(node)
    operands, base = [], 1
    for x in node.operands:
        operands.append(np.arange(base, base + x.size, dtype=float))
        base += x.size
    joined = np.concatenate([[0.0], *operands])
    table = node.map.table()
    for rank in range(RANKS):
        want = joined[table[rank if len(table) > 1 else 0] + 1]
        assert (run(plan, operands, rank, node.size) == want).all(), plan
    return plan.layout


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_plan_gives_what_its_map_says(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    total, rows = sum(sizes), data.draw(st.sampled_from([1, RANKS]))
    size = data.draw(st.integers(1, 24))
    table = data.draw(
        st.lists(
            st.lists(st.integers(-1, total - 1), min_size=size, max_size=size), min_size=rows, max_size=rows
        )
    )
    node = make_view(inputs(*sizes), maps.from_table(table))
    if node.kind == "view":
        check(node)


def test_each_form_is_chosen_where_it_fits() -> None:
    (x,) = inputs(24)
    y, z = inputs(4, 6)
    assert check(make_view([x], maps.window(4, 8))) is Layout.ALIAS
    assert check(make_view([x], maps.window([0, 8, 16], 8))) is Layout.ALIAS
    assert check(make_view([x], maps.zeros(5))) is Layout.ZEROS
    assert check(make_view([y, z], maps.copies(10, 3))) is Layout.REPEAT
    assert check(make_view([y, z], maps.identity(10))) is Layout.PIECES
    (wide,) = inputs(240)
    assert check(make_view([wide], maps.permuted((2, 60, 2), (1, 0, 2)))) is Layout.RADIX
    backwards = np.arange(240).reshape(60, 4)[::-1].ravel()
    assert check(make_view([wide], maps.from_table(backwards))) is Layout.ROWS
