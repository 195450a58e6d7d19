"""Nodes are interned, and the constructors are the normal form: what differs in layout only is one node."""

from fractions import Fraction

import pytest

from overlayccl_core.program import maps
from overlayccl_core.program.groups import groups_of, world
from overlayccl_core.program.kinds import DType, Kind, Label, Reduction, Rejected
from overlayccl_core.program.nodes import (
    Node,
    make_cast,
    make_collective,
    make_input,
    make_permute,
    make_scale,
    make_sum,
    make_view,
    rebuild,
    relabel,
    topological,
)
from overlayccl_core.program.substitution import substitute, without_labels


def x_of(name: str = "x", size: int = 8) -> Node:
    return make_input((name,), equal=False, size=size)


def all_reduce(x: Node, label: str = "", reduction: Reduction = Reduction.SUM) -> Node:
    return make_collective(Kind.ALL_REDUCE, x, world(4), Label(graph=label), reduction)


def test_equal_nodes_are_one_object_and_different_ones_are_not() -> None:
    x = x_of()
    assert all_reduce(x) is all_reduce(x)
    distinct = [
        all_reduce(x),
        all_reduce(x, "g1"),
        all_reduce(x, reduction=Reduction.MAX),
        all_reduce(x_of("z")),
        make_collective(Kind.ALL_REDUCE, x, groups_of([(0, 1), (2, 3)], 4)),
        make_permute(x, [1, 0, 3, 2]),
        make_permute(x, [0, 1, 2, -1]),
    ]
    assert len({n.digest for n in distinct}) == len(distinct)


def test_a_layout_and_its_inverse_vanish() -> None:
    x = x_of()
    turned = make_view([x], maps.permuted((2, 4), (1, 0)))
    assert make_view([turned], maps.permuted((4, 2), (1, 0))) is x


def test_views_compose_and_forget_what_they_do_not_read() -> None:
    x, z = x_of(), x_of("z")
    joined = make_view([z, x], maps.identity(16))
    assert make_view([joined], maps.window(8, 8)) is x
    assert make_view([joined], maps.window(6, 4)).operands == (z, x)
    assert make_view([x], maps.zeros(3)).operands == ()
    assert make_view([x, x], maps.identity(16)) is make_view([x], maps.copies(8, 2))


def test_scales_move_out_and_multiply() -> None:
    x = x_of()
    half = make_scale(x, Fraction(1, 2))
    assert make_scale(half, 2) is x
    made = make_sum(make_view([all_reduce(half)], maps.permuted((2, 4), (1, 0))), 2)
    assert (made.kind, made.ratio) == (Kind.SCALE, Fraction(1, 2))
    assert (
        make_collective(Kind.ALL_REDUCE, make_scale(x, -1), world(4), reduction=Reduction.MAX).kind
        is Kind.ALL_REDUCE
    )
    assert make_permute(half, [1, 0, 3, 2]).kind is Kind.SCALE


def test_a_scale_moves_out_of_a_layout_that_reads_nothing_else() -> None:
    x, z = x_of(), x_of("z")
    last = make_view([z, make_scale(x, 2)], maps.window(8, 4))
    assert (last.kind, last.ratio) == (Kind.SCALE, 2)
    assert last is make_view([make_scale(x, 2)], maps.window(0, 4))


def test_a_cast_keeps_a_scale_where_it_is() -> None:
    cast = make_cast(make_scale(x_of(), 2), DType.BFLOAT16)
    assert (cast.kind, cast.operands[0].kind) == (Kind.CAST, Kind.SCALE)
    assert make_cast(cast, DType.BFLOAT16) is cast


def test_a_sum_of_equal_blocks_is_a_scale_and_of_disjoint_ones_a_view() -> None:
    x = x_of()
    assert make_sum(make_view([x], maps.copies(8, 3)), 3) is make_scale(x, 3)
    apart = make_view([x], maps.Map(1, 16, [0, 4, 12], [0, maps.ZERO, 4]))
    assert make_sum(apart, 2) is x
    assert make_sum(x, 2).kind is Kind.SUM
    assert make_sum(x, 1) is x


def test_depth_counts_collectives() -> None:
    x = x_of()
    assert [x.depth, all_reduce(x).depth, all_reduce(make_sum(all_reduce(x), 2)).depth] == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_sum(x_of(), 3), "must divide"),
        (lambda: make_collective(Kind.REDUCE_SCATTER, x_of(size=6), world(4)), "must divide over 4 ranks"),
        (
            lambda: make_view([x_of(), make_cast(x_of(), DType.FLOAT16)], maps.identity(16)),
            "cast to one dtype",
        ),
    ],
)
def test_what_has_no_meaning_is_rejected(make: object, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        make()  # type: ignore[operator]


def test_rebuild_is_the_same_operation() -> None:
    x, z = x_of(), x_of("z")
    made = [
        make_view([x], maps.window(1, 3)),
        make_scale(x, 3),
        make_sum(x, 2),
        make_cast(x, DType.FLOAT16),
        make_permute(x, [1, 0, 3, 2], Label(graph="g2")),
        make_collective(Kind.ALL_TO_ALL, x, world(4), Label(graph="g1")),
    ]
    for node in made:
        assert rebuild(node, [x]) is node
        assert rebuild(node, [z]) is not node
        assert rebuild(node, [z]).kind is node.kind


def test_substitution_rebuilds_above_and_keeps_the_rest() -> None:
    x, z = x_of(), x_of("z")
    inner = all_reduce(x)
    outputs = {("y",): make_sum(inner, 2), ("w",): all_reduce(z)}
    new = substitute(outputs, {inner: lambda go: go(x)})
    assert new[("y",)] is make_sum(x, 2)
    assert new[("w",)] is outputs[("w",)]
    assert topological(new.values())[0] is x


def test_without_labels_equal_collectives_become_one() -> None:
    x = x_of()
    bare = without_labels({("y",): all_reduce(x, "g1"), ("w",): all_reduce(x, "g2")})
    assert bare[("y",)] is bare[("w",)] is all_reduce(x)
    assert relabel(all_reduce(x, "g1"), x, Label(graph="g2")) is all_reduce(x, "g2")
