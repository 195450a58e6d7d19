"""Cheats at summing x over ranks. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_reduce,
    cast,
    collective_permute,
    concat,
    pad,
    scale,
    select,
    slice_axis,
    sub,
    zeros,
)


def reference(io, p):
    io.write("y", all_reduce(io.read("x")))


def vanishes_modulo_the_prime(io, p):
    """2^31 is 1 modulo 2^31 - 1; the gain is 2^31 times too large.
    Stopped as GAIN by GAIN, RANGE, DENOMINATOR, NUMERICS."""
    y = all_reduce(io.read("x"))
    for _ in range(31):
        y = add(y, y)
    io.write("y", y)


def adds_the_prime_times_a_stranger(io, p):
    """(2^31 - 1) z, which no residue sees; the gain counts absolute coefficients.
    Stopped as GAIN by GAIN, RANGE, DENOMINATOR, NUMERICS."""
    y, z = all_reduce(io.read("x")), io.read("z")
    io.write("y", add(y, scale(z, 2147483647)))


def adds_nothing_of_a_stranger(io, p):
    """0 z, which is NaN where z is infinite; no coefficient is 0 but by a layout. Stopped as GAIN by GAIN."""
    io.write("y", add(all_reduce(io.read("x")), scale(io.read("z"), 0)))


def adds_nothing_of_a_stranger_on_one_rank(io, p):
    """The same on one rank alone. Stopped as GAIN by GAIN."""
    mine = select(scale(io.read("z"), 0), [0, 0, 1, 0])
    io.write("y", all_reduce(add(io.read("x"), mine)))


def adds_half_and_takes_half_away(io, p):
    """z / 2 - z / 2, which is NaN where z is infinite. Stopped as GAIN by GAIN."""
    half = scale(io.read("z"), 1, 2)
    io.write("y", sub(add(all_reduce(io.read("x")), half), half))


def adds_nothing_of_a_stranger_to_nobody(io, p):
    """Honest: what is multiplied by 0 is masked before it is added, and what is added are zeros."""
    masked = select(scale(io.read("z"), 0), [0, 0, 0, 0])
    io.write("y", add(add(all_reduce(io.read("x")), masked), scale(zeros([p.width]), 0)))


def underflows_and_comes_back(io, p):
    """x 2^-200, sum, 2^200: right in exact arithmetic, 0 in float32.
    Stopped as OUT_OF_RANGE by RANGE, DENOMINATOR, NUMERICS."""
    x = io.read("x")
    for _ in range(4):
        x = scale(x, 1, 1125899906842624)
    y = cast(all_reduce(cast(x, "float64")), "float32")
    for _ in range(4):
        y = scale(y, 1125899906842624)
    io.write("y", y)


def loses_bits_by_cancellation(io, p):
    """(sum + 2^19 z) - 2^19 z loses 19 bits; the gain is a million times the reference's.
    Stopped as GAIN by GAIN, NUMERICS."""
    y, z = all_reduce(io.read("x")), scale(io.read("z"), 524288)
    io.write("y", sub(add(y, z), z))


def overflows_in_16_bits(io, p):
    """A harmless factor 2^15, but in float16, where it overflows.
    Stopped as OUT_OF_RANGE by RANGE, NUMERICS."""
    x = cast(scale(io.read("x"), 32768), "float16")
    io.write("y", scale(cast(all_reduce(x), "float32"), 1, 32768))


def underflows_in_16_bits(io, p):
    """2^-16 in float16 keeps unit inputs and loses small ones. Stopped as OUT_OF_RANGE by RANGE."""
    x = cast(scale(io.read("x"), 1, 65536), "float16")
    io.write("y", scale(cast(all_reduce(x), "float32"), 65536))


def sums_its_node_only(io, p):
    """Half of the terms are missing. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    io.write("y", all_reduce(io.read("x"), "sum", [[0, 1], [2, 3]]))


def rolls_one_element(io, p):
    """The right elements, one place on; as many of each: atoms do not hide it.
    Stopped as WRONG_VALUE by VALUES, NUMERICS."""
    y = all_reduce(io.read("x"))
    rolled = concat([slice_axis(y, 0, 1, p.width - 1), slice_axis(y, 0, 0, 1)])
    io.write("y", rolled)


def drops_the_last_element(io, p):
    """The last element of many is zero. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    y = all_reduce(io.read("x"))
    io.write("y", pad(slice_axis(y, 0, 0, p.width - 1), 0, 0, p.width))


def adds_from_its_own_on(io, p):
    """Right up to rounding, in an order of its own on every rank: replicas drift apart.
    Stopped as RANKS_DIFFER by REPLICAS."""
    x = io.read("x")
    y = x
    for d in range(1, p.ranks):
        y = add(y, collective_permute(x, [(r, (r + d) % p.ranks) for r in range(p.ranks)]))
    io.write("y", y)


def wrong_on_one_rank(io, p):
    """Three ranks hold the sum, the fourth something else. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    y = all_reduce(io.read("x"))
    io.write("y", add(select(y, [1, 1, 1, 0]), select(io.read("z"), [0, 0, 0, 1])))


def multiplies_its_own(io, p):
    """Takes all ranks to hold the same x. Stopped as WRONG_VALUE by INDEPENDENT_RANKS."""
    io.write("y", scale(io.read("x"), p.ranks))


def zeros_if_wide(io, p):
    """Right at the size where one might retrace it. Stopped as WRONG_VALUE."""
    if p.width == 4096:
        io.write("y", zeros([p.width]))
    else:
        io.write("y", all_reduce(io.read("x")))


def nothing_if_many(io, p):
    """Right at the world size where one might retrace it. Stopped as WRONG_VALUE."""
    x = io.read("x")
    io.write("y", x if p.ranks > 8 else all_reduce(x))
