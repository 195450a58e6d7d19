"""Strange ways of summing x over ranks, all of them right. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    all_reduce,
    all_to_all,
    boundary,
    broadcast,
    cast,
    collective_permute,
    concat,
    index_select,
    pad,
    permute_dims,
    reduce_scatter,
    reduce_sum,
    reshape,
    scale,
    select,
    slice_axis,
    split,
)


def reference(io, p):
    io.write("y", all_reduce(io.read("x")))


def passes_round_the_ring(io, p):
    """N - 1 neighbours' exchanges, adding up."""
    x = io.read("x")
    y, moving = x, x
    for _ in range(p.ranks - 1):
        moving = collective_permute(moving, [(r, (r + 1) % p.ranks) for r in range(p.ranks)])
        y = add(y, moving)
    io.write("y", y)


def doubles_by_recursion(io, p):
    """Recursive doubling, as a hypercube."""
    y = io.read("x")
    step = 1
    for _ in range(2):
        other = collective_permute(
            y, [(r, r + step if r // step % 2 == 0 else r - step) for r in range(p.ranks)]
        )
        y = add(y, other)
        step = step * 2
    io.write("y", y)


def two_odd_tiers(io, p):
    """Groups that follow no node."""
    io.write("y", all_reduce(all_reduce(io.read("x"), "sum", [[0, 3], [1, 2]]), "sum", [[0, 1], [3, 2]]))


def broadcasts_by_a_masked_sum(io, p):
    """Sums onto rank 2, then hands out from there by a sum of zeros and one."""
    y = select(all_reduce(io.read("x")), [0, 0, 1, 0])
    io.write("y", all_reduce(y))


def sends_everything_to_everybody(io, p):
    """N times the bytes."""
    io.write("y", reduce_sum(all_to_all(broadcast(io.read("x"), 0, p.ranks)), 0))


def doubles_and_halves(io, p):
    """Factors that are undone."""
    y = all_reduce(scale(io.read("x"), 6))
    io.write("y", scale(scale(y, 1, 2), 1, 3))


def averages_equal_copies(io, p):
    """Sums the sum N times, divides by N."""
    y = all_reduce(all_reduce(io.read("x")))
    io.write("y", scale(y, 1, p.ranks))


def splits_into_weights(io, p):
    """Three quarters and one quarter of the same."""
    x = all_reduce(io.read("x"))
    io.write("y", add(scale(x, 3, 4), scale(x, 1, 4)))


def negates_twice(io, p):
    """The sum of what is negative, negated."""
    x = io.read("x")
    io.write("y", scale(all_reduce(scale(x, -1)), -1))


def turns_and_turns_back(io, p):
    """A layout and its inverse around the sum."""
    square = permute_dims(reshape(io.read("x"), (2, 4)), (1, 0))
    io.write("y", reshape(permute_dims(all_reduce(square), (1, 0)), (8,)))


def sums_garbage_beside_it(io, p):
    """Half of the buffer is something else, dropped in the end."""
    x, z = io.read("x"), io.read("z")
    io.write("y", split(all_reduce(concat([z, x])), 2)[1])


def makes_a_sum_for_nobody(io, p):
    """A collective that nobody reads."""
    x = io.read("x")
    all_gather(x)
    boundary()
    io.write("y", all_reduce(x))


def detours_through_float64(io, p):
    """A wider dtype on the way."""
    io.write("y", cast(all_reduce(cast(io.read("x"), "float64")), "float32"))


def pads_each_rank_elsewhere(io, p):
    """Every rank puts its block at its own place, sums, and adds the blocks."""
    apart = pad(io.read("x"), 0, [8 * r for r in range(p.ranks)], 8 * p.ranks)
    io.write("y", reduce_sum(reshape(all_reduce(apart), (p.ranks, 8)), 0))


def scatters_in_reverse(io, p):
    """Shares in reversed order, gathered, and put in order again."""
    reverse = [7 - i for i in range(8)]
    shares = reduce_scatter(index_select(io.read("x"), reverse))
    io.write("y", index_select(all_gather(shares), reverse))


def each_rank_reads_itself(io, p):
    """A gather of which every rank reads its own, then the sum."""
    full = reshape(all_gather(io.read("x")), (p.ranks, 8))
    mine = reshape(slice_axis(full, 0, range(p.ranks), 1), (8,))
    io.write("y", all_reduce(mine))
