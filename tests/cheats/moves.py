"""Cheats at moving data between ranks. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    all_reduce,
    broadcast,
    collective_permute,
    reshape,
    scale,
    select,
    slice_axis,
)


def reference(io, p):
    """The first half of the ranks hands its value to the second half."""
    half = p.ranks // 2
    io.write("y", collective_permute(io.read("x"), [(r, r + half) for r in range(half)]))


def sums_the_pair_unmasked(io, p):
    """Trusts the others to hold zeros, where inputs are arbitrary. Stopped as WRONG_VALUE by INVALID_INPUTS."""
    half = p.ranks // 2
    io.write("y", all_reduce(io.read("x"), "sum", [[r, r + half] for r in range(half)]))


def masks_by_multiplication(io, p):
    """0 times what is not valid, which may be NaN: a value times 0 is no zero, and the run in its own
    dtypes puts NaN there. Stopped as GAIN by GAIN, NUMERICS."""
    half = p.ranks // 2
    x = io.read("x")
    moved = collective_permute(x, [(r, r + half) for r in range(half)])
    io.write("y", add(moved, scale(x, 0)))


def takes_the_maximum_of_masked(io, p):
    """A maximum with zeros moves what is not negative, as residues never are.
    Stopped as NOT_LINEAR by LINEAR, NUMERICS."""
    half = p.ranks // 2
    masked = select(io.read("x"), [r < half for r in range(p.ranks)])
    io.write("y", all_reduce(masked, "max", [[r, r + half] for r in range(half)]))


def gathers_everything_many_times(io, p):
    """Wins by holding 4096 copies of everything. Stopped as MEMORY by MEMORY."""
    copies = broadcast(io.read("x"), 0, 4096)
    gathered = reshape(all_gather(copies), (p.ranks, 4096, -1))
    first = reshape(slice_axis(gathered, 1, 0, 1), (p.ranks, -1))
    half = p.ranks // 2
    io.write("y", reshape(slice_axis(first, 0, [(r + half) % p.ranks for r in range(p.ranks)], 1), (-1,)))


def calls_what_is_not_there(io, p):
    """A collective that aborts on this machine. Stopped as UNSUPPORTED by CAPABILITIES."""
    half = p.ranks // 2
    x = io.read("x")
    io.write("y", collective_permute(x, [(r, (r + half) % p.ranks) for r in range(p.ranks)]))
