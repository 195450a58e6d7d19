"""Cheats at the sums of a parallel block, and honest ways that look like them. Read as text, never executed."""

from overlayccl_core.program.language import add, all_reduce, concat, flatten, reshape, scale, split


def reference(io, p):
    _each(io, p, lambda attention, mlp: all_reduce(add(attention, mlp)))


def leaves_a_part_out(io, p):
    """The MLP is in no sum. Stopped as WRONG_VALUE."""
    _each(io, p, lambda attention, mlp: scale(all_reduce(attention), 2))


def adds_a_part_behind_the_sum(io, p):
    """A rank's own share of the MLP for the total of all. Stopped as WRONG_VALUE."""
    _each(io, p, lambda attention, mlp: add(all_reduce(attention), mlp))


def counts_a_part_twice(io, p):
    """The MLP twice in the sum. Stopped as WRONG_VALUE."""
    _each(io, p, lambda attention, mlp: all_reduce(add(add(attention, mlp), mlp)))


def counts_a_part_twice_and_halves_it(io, p):
    """Honest: twice a half is once."""
    _each(io, p, lambda attention, mlp: all_reduce(add(attention, scale(add(mlp, mlp), 1, 2))))


def adds_the_sums(io, p):
    """Honest: each part summed over ranks, twice the bytes."""
    _each(io, p, lambda attention, mlp: add(all_reduce(attention), all_reduce(mlp)))


def takes_the_mlp_of_another_microbatch(io, p):
    """The parts of two blocks in one total: what all microbatches have together is right.
    Stopped as WRONG_VALUE."""
    _joined(io, p, 1)


def adds_by_block(io, p):
    """Honest: all in one buffer, each with its own."""
    _joined(io, p, 0)


def _each(io, p, total):
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = [io.read("partial", m, layer, part) for part in range(p.parts)]
            io.write("total", m, layer, total(attention, mlp))


def _joined(io, p, off):
    for layer in p.layer_order:
        attention, mlp = [
            [io.read("partial", m, layer, part) for m in range(p.microbatches)] for part in range(p.parts)
        ]
        both = [add(attention[m], mlp[(m + off) % p.microbatches]) for m in range(p.microbatches)]
        totals = split(all_reduce(concat([flatten(x) for x in both])), p.microbatches)
        for m in range(p.microbatches):
            io.write("total", m, layer, reshape(totals[m], p.shape))
