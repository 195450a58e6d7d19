from overlayccl_core.program.language import add, collective_permute, concat, not_applicable, scale, split


def recursive_doubling(io, p):
    """log2(N) swaps of one buffer with all gradients: in round k with the rank that differs in bit k. Each adds
    what it gets to what it has: all ranks add the same two terms and end with the same bits."""
    n = p.world_size
    if n & (n - 1):
        not_applicable("a world size that is no power of two")
    total = concat([io.read("gradient", i) for i in p.tensor_order])
    for k in range(n.bit_length() - 1):
        total = add(total, collective_permute(total, [(r, r ^ (1 << k)) for r in range(n)]))
    means = split(scale(total, 1, n), [p.sizes[i] for i in p.tensor_order])
    for i, mean in zip(p.tensor_order, means, strict=True):
        io.write("mean", i, mean)
