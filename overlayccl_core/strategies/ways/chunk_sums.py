"""Chunk programs of sums: f(chunk, p) leaves the sums over ranks in each rank's input, in place. The input has a
chunk for each rank. Read, never executed."""

from overlayccl_core.strategies.ways import buffers


def ring(chunk, p):
    """Each chunk goes once round the ring, adding up, and once more, as the sum."""
    n = p.world_size
    for i in range(n):
        total = chunk((i + 1) % n, "input", i)
        for step in range(2, n + 1):
            total = chunk((i + step) % n, "input", i).reduce(total)
        for step in range(1, n):
            total = total.copy((i + step) % n, "input", i)


def all_pairs(chunk, p):
    """Two steps: each rank gets its chunk of everybody's and adds them up; it sends the sum to everybody."""
    for rank in range(p.world_size):
        total = chunk(0, "input", rank).copy(rank, "scratch", 0)
        for source in range(1, p.world_size):
            total = total.reduce(chunk(source, "input", rank))
        for destination in range(p.world_size):
            total.copy(destination, "input", rank)


def hierarchical(chunk, p):
    """Four phases: sums are scattered within nodes, then across nodes; gathered across nodes, then within nodes."""
    within, across = buffers.tiers(p)
    nodes = len(across[0])
    of_nodes = [(group, rank, j * nodes, nodes) for group in within for j, rank in enumerate(group)]
    of_ranks = [(g, rank, j * nodes + k, 1) for j, g in enumerate(across) for k, rank in enumerate(g)]
    for group, rank, index, count in of_nodes + of_ranks:
        total = chunk(rank, "input", index, count)
        for other in [r for r in group if r != rank]:
            total = total.reduce(chunk(other, "input", index, count))
    for group, rank, index, count in of_ranks + of_nodes:
        for other in [r for r in group if r != rank]:
            chunk(rank, "input", index, count).copy(other, "input", index)
