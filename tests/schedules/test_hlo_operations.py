"""Each operation of HLO that moves or adds gives what NumPy gives, on every rank."""

from collections.abc import Callable
from fractions import Fraction
from math import fmod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.schedules.hlo import program_of
from overlayccl_core.schedules.hlo_values import ratio_of
from tests.schedules.hlo_modules import SUM, module
from tests.small_problems import exchange

RANKS = 3
Array = NDArray[Any]


def run(text: str, given: tuple[int, ...], gives: tuple[int, ...]) -> tuple[list[Array], list[Array]]:
    """(x, y) of each rank, of a module from an input to an output."""
    problem = exchange(RANKS, {"x": given}, {"y": gives})
    x = np.random.default_rng(0).standard_normal((RANKS, int(np.prod(given))))
    [y] = evaluate(program_of(text, problem).outputs, {("x",): x}, Double(), RANKS)[0].values()
    return list(x.reshape(RANKS, *given)), list(y.on_all().reshape(RANKS, *gives))


def check(
    body: str, given: tuple[int, ...], gives: tuple[int, ...], expected: Callable[[Array, int], Array]
) -> None:
    shape = ",".join(map(str, given))
    text = module(f"%x = f32[{shape}] parameter(0)\n{body}", SUM, TOTAL, ranks=RANKS)
    for rank, (x, y) in enumerate(zip(*run(text, given, gives), strict=True)):
        np.testing.assert_allclose(y, expected(x, rank), err_msg=f"rank {rank}")


def _updated(x: Array, part: Array, *starts: int) -> Array:
    y = x.copy()
    y[tuple(slice(a, a + n) for a, n in zip(starts, part.shape, strict=True))] = part
    return y


TOTAL = SUM.replace("%sum", "%total").replace("f32[]", "s32[]")
ZERO = "%zero = f32[] constant(0)\n"
RANK = "%id = u32[] partition-id()\n%rank = s32[] convert(%id)\n%0 = s32[] constant(0)\n"


@pytest.mark.parametrize(
    ("body", "gives", "expected"),
    [
        ("ROOT %y = f32[8,3] reshape(%x)", (8, 3), lambda x, r: x.reshape(8, 3)),
        ("ROOT %y = f32[6,4] transpose(%x), dimensions={1,0}", (6, 4), lambda x, r: x.T),
        ("ROOT %y = f32[6,4]{0,1} bitcast(%x)", (6, 4), lambda x, r: x.T),
        (
            "%c = f32[4,6]{0,1} copy(%x)\nROOT %y = f32[2,3,4]{2,1,0} bitcast(%c)",
            (2, 3, 4),
            lambda x, r: x.T.reshape(2, 3, 4),
        ),
        (  # rows of 6 in tiles of 2 rows by 2: 0 1 6 7, 2 3 8 9, ...
            "%c = f32[4,6]{1,0:T(2,2)} copy(%x)\nROOT %y = f32[24]{0} bitcast(%c)",
            (24,),
            lambda x, r: x.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(-1),
        ),
        (  # tiles in tiles, and padding that both have
            "%c = f32[3,6] slice(%x), slice={[0:3], [0:6]}\n%t = f32[3,6]{1,0:T(4,8)(2,1)} copy(%c)\n"
            "ROOT %y = f32[1,3,6]{2,1,0:T(4,8)(2,1)} bitcast(%t)",
            (1, 3, 6),
            lambda x, r: x[None, :3],
        ),
        (
            "%low = f32[] constant(-inf)\n%a = f32[6,6] pad(%x, %low), padding=2_0x0_0\n"
            "%s = f32[2,6] slice(%x), slice={[2:4], [0:6]}\n%b = f32[6,6] pad(%s, %low), padding=0_4x0_0\n"
            "ROOT %y = f32[6,6] maximum(%a, %b)",
            (6, 6),
            lambda x, r: np.vstack([x[2:], x]),
        ),
        ("ROOT %y = f32[2,3] slice(%x), slice={[1:3], [0:6:2]}", (2, 3), lambda x, r: x[1:3, ::2]),
        ("ROOT %y = f32[4,6] reverse(%x), dimensions={0,1}", (4, 6), lambda x, r: x[::-1, ::-1]),
        ("ROOT %y = f32[4,12] concatenate(%x, %x), dimensions={1}", (4, 12), lambda x, r: np.hstack([x, x])),
        (
            "ROOT %y = f32[2,4,5,6] broadcast(%x), dimensions={1,3}",
            (2, 4, 5, 6),
            lambda x, r: np.broadcast_to(x[None, :, None], (2, 4, 5, 6)),
        ),
        (
            "ROOT %y = f32[6,2,4] broadcast(%x), dimensions={2,0}",
            (6, 2, 4),
            lambda x, r: np.broadcast_to(x.T[:, None], (6, 2, 4)),
        ),
        (
            ZERO + "ROOT %y = f32[7,6] pad(%x, %zero), padding=1_2x0_0",
            (7, 6),
            lambda x, r: np.pad(x, ((1, 2), (0, 0))),
        ),
        (
            ZERO + "ROOT %y = f32[3,13] pad(%x, %zero), padding=-1_0x1_1_1",
            (3, 13),
            lambda x, r: np.pad(np.insert(x[1:], range(1, 6), 0, axis=1), ((0, 0), (1, 1))),
        ),
        (
            RANK + "ROOT %y = f32[2,6] dynamic-slice(%x, %rank, %0), dynamic_slice_sizes={2,6}",
            (2, 6),
            lambda x, r: x[r : r + 2],
        ),
        (  # starts are clamped: 2 * rank of 0, 2, 4 by 2 rows ends at 2
            RANK
            + "%twice = s32[] add(%rank, %rank)\n"
            + "ROOT %y = f32[2,6] dynamic-slice(%x, %twice, %0), dynamic_slice_sizes={2,6}",
            (2, 6),
            lambda x, r: x[min(2 * r, 2) :][:2],
        ),
        (
            RANK
            + "%part = f32[2,3] slice(%x), slice={[0:2], [0:3]}\n"
            + "ROOT %y = f32[4,6] dynamic-update-slice(%x, %part, %rank, %rank)",
            (4, 6),
            lambda x, r: _updated(x, x[:2, :3], min(r, 2), min(r, 3)),
        ),
        (
            "%rows = s32[3] constant({2, 0, 9})\n"
            "ROOT %y = f32[3,6] gather(%x, %rows), offset_dims={1}, collapsed_slice_dims={0},"
            " start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
            (3, 6),
            lambda x, r: x[[2, 0, 3]],
        ),
        (
            "%rows = s32[2,1] constant({ {5}, {1} })\n"
            "ROOT %y = f32[4,2] gather(%x, %rows), offset_dims={0}, collapsed_slice_dims={1},"
            " start_index_map={1}, index_vector_dim=1, slice_sizes={4,1}",
            (4, 2),
            lambda x, r: x[:, [5, 1]],
        ),
        (  # windows of 2 by 3 at (0, 1) and at (2, 9), which is clamped to 3
            "%at = s32[2,2] constant({ {0, 1}, {2, 9} })\n"
            "ROOT %y = f32[2,2,3] gather(%x, %at), offset_dims={1,2}, collapsed_slice_dims={},"
            " start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}",
            (2, 2, 3),
            lambda x, r: np.stack([x[0:2, 1:4], x[2:4, 3:6]]),
        ),
        (
            RANK
            + "%one = s32[] constant(1)\n%is = pred[] compare(%rank, %one), direction=EQ\n"
            + "%n = f32[4,6] negate(%x)\nROOT %y = f32[4,6] select(%is, %x, %n)",
            (4, 6),
            lambda x, r: x if r == 1 else -x,
        ),
        (
            RANK
            + "%i = s32[4,6] iota(), iota_dimension=1\n%b = s32[4,6] broadcast(%rank), dimensions={}\n"
            + "%m = pred[4,6] compare(%i, %b), direction=GT\n%z = f32[] constant(0)\n"
            + "%zs = f32[4,6] broadcast(%z), dimensions={}\nROOT %y = f32[4,6] select(%m, %x, %zs)",
            (4, 6),
            lambda x, r: np.where(np.arange(6) > r, x, 0),
        ),
        ("ROOT %y = f32[4,6] add(%x, %x)", (4, 6), lambda x, r: x + x),
        ("%n = f32[4,6] negate(%x)\nROOT %y = f32[4,6] subtract(%x, %n)", (4, 6), lambda x, r: 2 * x),
        (
            "%c = f32[] constant(0.333333343)\n%b = f32[4,6] broadcast(%c), dimensions={}\n"
            "ROOT %y = f32[4,6] multiply(%b, %x)",
            (4, 6),
            lambda x, r: x / 3,
        ),
        (
            "%c = f32[] constant(8)\n%b = f32[4,6] broadcast(%c), dimensions={}\nROOT %y = f32[4,6] divide(%x, %b)",
            (4, 6),
            lambda x, r: x / 8,
        ),
        (
            ZERO + "ROOT %y = f32[6] reduce(%x, %zero), dimensions={0}, to_apply=%sum",
            (6,),
            lambda x, r: x.sum(0),
        ),
        (
            ZERO
            + "%t = f32[] reduce(%x, %zero), dimensions={1,0}, to_apply=%sum\nROOT %y = f32[1] reshape(%t)",
            (1,),
            lambda x, r: x.sum().reshape(1),
        ),
    ],
)
def test_operation(body: str, gives: tuple[int, ...], expected: Callable[[Array, int], Array]) -> None:
    check(body, (4, 6), gives, expected)


@pytest.mark.parametrize(
    ("numbers", "start"),
    [
        ("%s = s32[] multiply(%rank, %rank)", lambda r: r * r),
        ("%two = s32[] constant(2)\n%s = s32[] divide(%rank, %two)", lambda r: r // 2),
        ("%m = s32[] constant(-3)\n%t = s32[] add(%rank, %m)\n%s = s32[] remainder(%t, %m)", lambda r: 0),
        (
            "%m = s32[] constant(-4)\n%t = s32[] add(%rank, %m)\n%d = s32[] constant(3)\n"
            "%q = s32[] remainder(%t, %d)\n%s = s32[] add(%q, %d)",
            lambda r: 3 + int(fmod(r - 4, 3)),  # it has the sign of what is divided
        ),
        ("%m = s32[] constant(-7)\n%s = s32[] divide(%m, %m)", lambda r: 1),
        ("%one = s32[] constant(1)\n%s = s32[] xor(%rank, %one)", lambda r: r ^ 1),
        ("%one = s32[] constant(1)\n%s = s32[] shift-right-logical(%rank, %one)", lambda r: r >> 1),
        ("%one = s32[] constant(1)\n%s = s32[] minimum(%rank, %one)", lambda r: min(r, 1)),
        (
            "%table = s32[3] constant({3, 1, 2})\n"
            "%row = s32[1] dynamic-slice(%table, %rank), dynamic_slice_sizes={1}\n%s = s32[] bitcast(%row)",
            lambda r: [3, 1, 2][r],
        ),
        (
            "%t = s32[2,2] constant({ { 0, 1 }, { 2, 3 } })\n%tt = s32[2,2] transpose(%t), dimensions={1,0}\n"
            "%f = s32[4] reshape(%tt)\n%o = s32[1] constant({1})\n%p = s32[5] concatenate(%f, %o), dimensions={0}\n"
            "%row = s32[1] dynamic-slice(%p, %rank), dynamic_slice_sizes={1}\n%s = s32[] reshape(%row)",
            lambda r: [0, 2, 1][r],
        ),
        (
            "%i = s32[2,3] iota(), iota_dimension=0\n"
            "%s = s32[] reduce(%i, %rank), dimensions={0,1}, to_apply=%total",
            lambda r: min(3 + r, 4),
        ),
        (
            "%t = s32[2] constant({1, 3})\n%big = s32[] constant(4)\n%q = s32[3] pad(%t, %big), padding=1_0\n"
            "%row = s32[1] dynamic-slice(%q, %rank), dynamic_slice_sizes={1}\n%s = s32[] reshape(%row)",
            lambda r: [4, 1, 3][r],
        ),
        (
            "%b = pred[] constant(true)\n%n = pred[] not(%b)\n%one = s32[] constant(1)\n"
            "%s = s32[] select(%n, %rank, %one)",
            lambda r: 1,
        ),
    ],
)
def test_numbers_known_on_each_rank_are_worked_out(numbers: str, start: Callable[[int], int]) -> None:
    body = RANK + numbers + "\nROOT %y = f32[1,6] dynamic-slice(%x, %s, %0), dynamic_slice_sizes={1,6}"
    check(body, (5, 6), (1, 6), lambda x, r: x[[start(r)]])


@pytest.mark.parametrize(
    ("number", "ratio"),
    [
        (np.float32(1 / 3), Fraction(1, 3)),
        (np.float32(-0.1), Fraction(-1, 10)),
        (np.float32(1 / 3072), Fraction(1, 3072)),
        (np.float32(2.0**-30), Fraction(1, 2**30)),
        (np.float32(6), Fraction(6)),
        (np.float32(0.75), Fraction(3, 4)),
        (np.float64(1 / 7), Fraction(1, 7)),
        (ml_dtypes.bfloat16(1 / 3), Fraction(1, 3)),
        (ml_dtypes.bfloat16(1 / 1024), Fraction(1, 1024)),
        (np.float32(3.4028235e38), Fraction(3.4028234663852886e38)),
        (np.float32(0), Fraction(0)),
    ],
)
def test_a_factor_is_the_simplest_ratio_that_rounds_to_it(number: Any, ratio: Fraction) -> None:
    assert ratio_of(number) == ratio
