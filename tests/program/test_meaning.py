"""The meaning of every operation on all ranks, against NumPy written out, in each arithmetic."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core.program import maps, meaning
from overlayccl_core.program.arithmetics import (
    MIXED,
    PLUS,
    PRIME,
    Arithmetic,
    Bits,
    Double,
    Gain,
    Modular,
    Origins,
    Real,
)
from overlayccl_core.program.groups import groups_of, world
from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.meaning import RankData, TooLarge, evaluate
from overlayccl_core.program.nodes import (
    Node,
    make_cast,
    make_collective,
    make_input,
    make_permute,
    make_rowwise,
    make_scale,
    make_sum,
    make_view,
)
from overlayccl_core.program.rowwise import RowAttr

RANKS = 4
PAIRS = groups_of([(0, 3), (2, 1)], RANKS)
DATA = np.random.default_rng(7).standard_normal((RANKS, 8))


def x_of(size: int = 8, *, equal: bool = False, dtype: DType = DType.FLOAT64) -> Node:
    return make_input(("x",), equal=equal, size=size, dtype=dtype)


def value(node: Node, data: np.ndarray = DATA, arithmetic: Arithmetic | None = None) -> np.ndarray:
    got, _ = evaluate({("y",): node}, {("x",): data}, arithmetic or Double(), RANKS)
    return got[("y",)].on_all()


def test_all_reduce_sums_within_its_groups() -> None:
    got = value(make_collective(Kind.ALL_REDUCE, x_of(), PAIRS))
    np.testing.assert_allclose(got, DATA[[0, 1, 1, 0]] + DATA[[3, 2, 2, 3]])


def test_all_reduce_takes_the_maximum() -> None:
    got = value(make_collective(Kind.ALL_REDUCE, x_of(), PAIRS, reduction=Reduction.MAX))
    np.testing.assert_array_equal(got, np.maximum(DATA[[0, 1, 1, 0]], DATA[[3, 2, 2, 3]]))


def test_all_gather_joins_in_member_order() -> None:
    got = value(make_collective(Kind.ALL_GATHER, x_of(), PAIRS))
    np.testing.assert_array_equal(got[1], np.concatenate([DATA[2], DATA[1]]))
    np.testing.assert_array_equal(got[3], np.concatenate([DATA[0], DATA[3]]))


def test_reduce_scatter_gives_block_j_to_member_j() -> None:
    got = value(make_collective(Kind.REDUCE_SCATTER, x_of(), PAIRS))
    np.testing.assert_allclose(got[2], (DATA[1] + DATA[2])[:4])
    np.testing.assert_allclose(got[1], (DATA[1] + DATA[2])[4:])


def test_all_to_all_exchanges_blocks() -> None:
    got = value(make_collective(Kind.ALL_TO_ALL, x_of(), world(RANKS)))
    np.testing.assert_array_equal(got.reshape(4, 4, 2), DATA.reshape(4, 4, 2).swapaxes(0, 1))


def test_who_receives_nothing_holds_zeros() -> None:
    got = value(make_permute(x_of(), [1, -1, 0, 3]))
    np.testing.assert_array_equal(got, np.stack([DATA[1], 0 * DATA[0], DATA[0], DATA[3]]))


def test_local_operations() -> None:
    x = x_of()
    np.testing.assert_allclose(value(make_sum(x, 4)), DATA.reshape(4, 4, 2).sum(1))
    np.testing.assert_allclose(value(make_scale(x, Fraction(-2, 3))), DATA * (-2 / 3))
    np.testing.assert_array_equal(value(make_view([x], maps.window([0, 1, 2, 3], 2)))[3], DATA[3, 3:5])
    np.testing.assert_array_equal(value(make_view([], maps.zeros(3), DType.FLOAT64)), np.zeros((4, 3)))


@pytest.mark.parametrize("at_once", [1, 2**17], ids=["rank by rank", "all at once"])
def test_a_layout_is_the_same_however_many_ranks_are_moved_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "AT_ONCE", at_once)
    x = x_of()
    got = value(make_view([x, make_scale(x, Fraction(2))], maps.window([3, 6, 9, 12], 4)))
    both = np.concatenate([DATA, 2 * DATA], 1)
    np.testing.assert_array_equal(
        got, [row[start : start + 4] for row, start in zip(both, [3, 6, 9, 12], strict=True)]
    )
    zeros = value(make_view([x], maps.on_ranks([1, 0, 1, 0], 8)))
    np.testing.assert_array_equal(zeros, DATA * [[1], [0], [1], [0]])


def test_equal_values_are_held_once_and_freed_after_use() -> None:
    x = x_of(equal=True)
    gathered = make_collective(Kind.ALL_GATHER, x, world(RANKS))
    got, peak = evaluate({("y",): make_sum(gathered, 4)}, {("x",): DATA[:1]}, Double(), RANKS)
    assert got[("y",)].data.shape == (1, 8)
    assert peak == (8 + 32 + 8) * 8 - 8 * 8  # the input is freed before the sum is made


def test_a_value_beyond_the_budget_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "MAX_HELD_BYTES", 8 * 31)
    with pytest.raises(TooLarge, match="limit"):
        value(make_collective(Kind.ALL_GATHER, x_of(), world(RANKS)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_residues_agree_with_integers(seed: int) -> None:
    data = np.random.default_rng(seed).integers(-50, 50, (RANKS, 8))
    x = make_view([x_of()], maps.from_table(np.random.default_rng(seed).integers(-1, 8, (RANKS, 8))))
    node = make_scale(make_collective(Kind.REDUCE_SCATTER, make_scale(x, 7), PAIRS), -3)
    residues = value(node, data % PRIME, Modular())
    integers = value(node, data.astype(float))
    np.testing.assert_array_equal(residues, integers.astype(int) % PRIME)


def test_a_ratio_is_its_inverse_modulo_the_prime() -> None:
    third = value(make_scale(x_of(), Fraction(1, 3)), np.full((4, 8), 12), Modular())
    np.testing.assert_array_equal(third, np.full((4, 8), 4))


def test_gain_adds_absolute_coefficients_and_remembers_extremes() -> None:
    x = x_of()
    both = make_view([make_scale(x, 5), make_scale(x, Fraction(-1, 4))], maps.identity(16))
    gain = Gain()
    np.testing.assert_array_equal(value(make_sum(both, 2), np.ones((4, 8)), gain), np.full((4, 8), 5.25))
    assert gain.extremes == {x.dtype: (0.25, 5.25)}


def test_real_sums_round_after_every_hop_in_their_own_dtype() -> None:
    x = x_of(8, dtype=DType.BFLOAT16)
    data = np.stack([np.full(8, v) for v in (256.0, 1.0, 1.0, 1.0)]).astype(Real().dtype(DType.BFLOAT16))
    got = value(make_collective(Kind.ALL_REDUCE, x, world(RANKS)), data, Real())
    np.testing.assert_array_equal(got.astype(float), np.full((4, 8), 256.0))  # 257 is no bfloat16


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_what_a_rank_sums_in_16_bits_is_rounded_once_as_torch_does(dtype: DType) -> None:
    count, width = 4096, 4
    data = np.random.default_rng(0).random((RANKS, count * width)).astype(Real().dtype(dtype))
    x = x_of(count * width, dtype=dtype)
    blocks = value(make_sum(x, count), data, Real())
    rows = value(make_rowwise(RowAttr(name="row_sum", width=count), [x]), data, Real())
    for rank in range(RANKS):
        y = torch.from_numpy(data[rank].astype(np.float32)).to(getattr(torch, dtype.value))
        np.testing.assert_array_equal(blocks[rank].astype(float), y.view(count, width).sum(0).tolist())
        np.testing.assert_array_equal(rows[rank].astype(float), y.view(width, count).sum(1).tolist())


def test_real_casts_round() -> None:
    x = make_cast(make_cast(x_of(dtype=DType.FLOAT32), DType.FLOAT16), DType.FLOAT32)
    got = value(x, np.full((4, 8), 1 + 2**-12, np.float32), Real())
    np.testing.assert_array_equal(got, np.ones((4, 8)))


def origins(node: Node) -> RankData:
    inputs = {("x",): np.arange(1, 33).reshape(4, 8)}
    return evaluate({("y",): node}, inputs, Origins(), RANKS)[0][("y",)]


def test_a_masked_sum_leaves_origins_as_they_are_but_for_the_sign_of_a_zero() -> None:
    masked = make_view([x_of()], maps.on_ranks([0, 0, 1, 0], 8))
    moved = origins(make_collective(Kind.ALL_REDUCE, masked, world(RANKS)))
    np.testing.assert_array_equal(moved.on(0), np.arange(17, 25) | PLUS)


def test_sums_have_other_origins_in_another_operation_order_or_dtype() -> None:
    x, world_ = x_of(), world(RANKS)
    reverse = groups_of([(3, 2, 1, 0)], RANKS)
    narrow = x_of(dtype=DType.BFLOAT16)
    share = make_collective(Kind.ALL_GATHER, make_collective(Kind.REDUCE_SCATTER, x, world_), world_)
    made = [
        origins(make_collective(Kind.ALL_REDUCE, x, world_)),
        origins(make_collective(Kind.ALL_REDUCE, x, reverse)),
        origins(make_collective(Kind.ALL_REDUCE, narrow, world_)),
        origins(share),
    ]
    assert all((held.data >= MIXED).all() for held in made)
    assert len({held.on(0).tobytes() for held in made}) == 4


@pytest.mark.parametrize("arithmetic", [Origins(), Bits()])
def test_a_sum_of_equal_copies_takes_no_memory_for_each(arithmetic: Arithmetic) -> None:
    copies, size = 224, 2**15
    x = make_input(("x",), equal=True, size=size, dtype=DType.FLOAT32)
    total = make_collective(Kind.ALL_REDUCE, x, world(copies))
    tracemalloc.start()
    evaluate({("y",): total}, {("x",): np.arange(1, size + 1)[None]}, arithmetic, copies)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 8 * size


def test_merging_keeps_origins() -> None:
    x = x_of()
    apart = [
        make_collective(Kind.ALL_REDUCE, make_view([x], maps.window(i, 4)), world(RANKS)) for i in (0, 4)
    ]
    together = make_collective(Kind.ALL_REDUCE, x, world(RANKS))
    np.testing.assert_array_equal(origins(make_view(apart, maps.identity(8))).on(1), origins(together).on(1))
