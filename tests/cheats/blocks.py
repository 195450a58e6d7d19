"""Cheats at the sums of a parallel block, and honest ways that look like them. Read as text, never executed."""

from overlayccl_core.program.language import add, all_reduce, concat, flatten, reshape, split, zeros


def reference(io, p):
    for m in range(p.microbatches):
        for layer in p.layer_order:
            for part in range(p.parts):
                io.write("total", m, layer, part, all_reduce(io.read("partial", m, layer, part)))


def gives_the_sum_of_both_and_zeros(io, p):
    for m in range(p.microbatches):
        for layer in p.layer_order:
            both = add(io.read("partial", m, layer, 0), io.read("partial", m, layer, 1))
            io.write("total", m, layer, 0, all_reduce(both))
            io.write("total", m, layer, 1, zeros(p.shape))


def takes_each_for_the_other(io, p):
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = _stacked(io, p, m, layer, [0, 1])
            io.write("total", m, layer, 0, mlp)
            io.write("total", m, layer, 1, attention)


def stacks_the_other_way_round(io, p):
    """Honest: what is stacked in another order is taken out in that order."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            mlp, attention = _stacked(io, p, m, layer, [1, 0])
            io.write("total", m, layer, 0, attention)
            io.write("total", m, layer, 1, mlp)


def sums_each_with_zeros(io, p):
    """Honest: zeros are added where they change nothing."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            for part in range(p.parts):
                total = all_reduce(add(io.read("partial", m, layer, part), zeros(p.shape)))
                io.write("total", m, layer, part, total)


def _stacked(io, p, m, layer, parts):
    joined = concat([flatten(io.read("partial", m, layer, part)) for part in parts])
    return [reshape(total, p.shape) for total in split(all_reduce(joined), 2)]
