from overlayccl_core.program.language import (
    add,
    collective_permute,
    concat,
    flatten,
    not_applicable,
    reshape,
    split,
)


def recursive_doubling(io, p):
    """The partial sums of all microbatches of a layer in one buffer, summed by log2(N) swaps and no all_reduce: in
    round k with the rank that differs in bit k. All ranks add the same two terms and end with the same bits."""
    n = p.world_size
    if n & (n - 1):
        not_applicable("a world size that is no power of two")
    for layer in p.layer_order:
        total = concat([flatten(io.read("partial", m, layer)) for m in range(p.microbatches)])
        for k in range(n.bit_length() - 1):
            total = add(total, collective_permute(total, [(r, r ^ (1 << k)) for r in range(n)]))
        for m, part in enumerate(split(total, p.microbatches)):
            io.write("total", m, layer, reshape(part, p.shape))
