from overlayccl_core.program.language import (
    collective_permute,
    concat,
    index_select,
    not_applicable,
    reshape,
    split,
)


def _before(d, step):
    """How many distances with that bit are smaller."""
    return len([e for e in range(d) if e & step])


def bruck(io, p):
    """Bruck's exchange (Bruck et al. 1997): log2(N) rounds, each with half of all chunks. Chunks lie by how far
    they go; in round k those whose distance has bit k move 2^k ranks on. Then they are ordered by source."""
    n = p.world_size
    if n & (n - 1):
        not_applicable("a world size that is no power of two")
    chunks = reshape(io.read("send"), (n, p.chunk * p.width))
    held = split(index_select(chunks, [[(r + d) % n for d in range(n)] for r in range(n)]), n)
    for k in range(n.bit_length() - 1):
        step = 1 << k
        moving = [d for d in range(n) if d & step]
        to = [(r, (r + step) % n) for r in range(n)]
        come = split(collective_permute(concat([held[d] for d in moving]), to), len(moving))
        held = [come[_before(d, step)] if d & step else held[d] for d in range(n)]
    by_source = index_select(concat(held), [[(r - s) % n for s in range(n)] for r in range(n)])
    io.write("received", reshape(by_source, (n * p.chunk, p.width)))
