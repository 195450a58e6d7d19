"""Ways of sending a flat value to the next rank: f(x, p) gives what the rank before sent, the first rank zeros (or,
if p.round, what the last one sent). Read, never executed."""

from overlayccl_core.program.language import chunked, slice_axis
from overlayccl_core.strategies.ways import buffers


def scattered_in_chunks(x, p):
    """Between nodes the value goes in pieces, one by each rank of the node: all links of a node carry it."""
    buffers.tiers(p)
    pieces = p.ranks_per_node
    return slice_axis(chunked(_scattered, buffers.padded(x, pieces), pieces, pieces), 0, 0, x.shape[0])


def _scattered(chunk, p):
    size, n = p.ranks_per_node, p.world_size
    for rank in range(n if p.round else n - 1):
        following = (rank + 1) % n
        if rank // size == following // size:
            chunk(rank, "input", 0, size).copy(following, "output", 0)
        else:
            for place in range(size):
                piece = chunk(rank, "input", place)
                piece = piece.copy(rank // size * size + place, "scratch", 0)
                piece = piece.copy(following // size * size + place, "scratch", 1)
                piece.copy(following, "output", place)
