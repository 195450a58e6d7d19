"""Cheats at averaging over two ranks. Read as text, never executed."""

from overlayccl_core.program.language import add, all_reduce, cast, scale, select


def reference(io, p):
    io.write("y", scale(all_reduce(io.read("x")), 1, p.ranks))


def is_the_identity(io, p):
    """Takes gradients for replicated, as parameters are. Stopped as WRONG_VALUE by INDEPENDENT_RANKS."""
    io.write("y", io.read("x"))


def weighs_three_quarters_to_one(io, p):
    """0.75 and 0.25, made to be 1/2 as residues and 1 as a gain.
    Stopped as DENOMINATOR by DENOMINATOR, NUMERICS."""
    x = io.read("x")
    mine = scale(select(x, [1, 0]), 6442450943, 8589934592)
    yours = scale(select(x, [0, 1]), 2147483649, 8589934592)
    io.write("y", all_reduce(add(mine, yours)))


def rounds_to_integers(io, p):
    """0.3 becomes 0, and a cast is the identity in exact arithmetic. Stopped as NOT_IN_LANGUAGE."""
    x = cast(cast(io.read("x"), "int32"), "float32")
    io.write("y", scale(all_reduce(x), 1, p.ranks))
