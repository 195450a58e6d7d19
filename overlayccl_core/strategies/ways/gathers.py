"""Ways of gathering a flat value: f(x, p) gives (N, elements), everybody's by rank. Read, never executed."""

from overlayccl_core.program.language import (
    all_gather,
    all_to_all,
    broadcast,
    collective_permute,
    concat,
    index_select,
    permute_dims,
    reshape,
)
from overlayccl_core.strategies.ways import buffers, exchanges


def all_to_all_of_copies(x, p):
    """Everybody sends its own to everybody: one exchange, N times the bytes."""
    return all_to_all(broadcast(x, 0, p.world_size))


def permute_ring(x, p):
    """N - 1 steps round the ring: every rank hands on what came from the one before it."""
    buffers.from_everybody(p)
    n = p.world_size
    moving = x
    came = [moving]
    for _ in range(n - 1):
        moving = collective_permute(moving, [(r, (r + 1) % n) for r in range(n)])
        came += [moving]
    by_rank = [[(r - source) % n for source in range(n)] for r in range(n)]
    return index_select(reshape(concat(came), (n, -1)), by_rank)


def two_step_hierarchical(x, p):
    """Gather across nodes from the ranks with the same place, then within the node."""
    within, across = buffers.tiers(p)
    of_my_place = all_gather(x, 0, across)
    nodes, size = p.world_size // p.ranks_per_node, p.ranks_per_node
    by_place = reshape(all_gather(of_my_place, 0, within), (size, nodes, -1))
    return reshape(permute_dims(by_place, (1, 0, 2)), (p.world_size, -1))


def _of_copies(x, p, way):
    """Everybody's own, copied for each rank and exchanged."""
    return way(broadcast(x, 0, p.world_size), p)


DERIVED = ((exchanges, _of_copies),)
