"""Known ways of gathering keys and values along a sequence. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    collective_permute,
    concat,
    flatten,
    index_select,
    not_applicable,
    permute_dims,
    reshape,
    slice_axis,
)

MOST_PIECES = 1 << 17  # of all heads from all ranks, on all ranks, in another order on each


def per_slot(io, p):
    """One all_gather of the keys and one of the values, in flight together."""
    fulls = [all_gather(io.read("shard", slot), 1) for slot in range(p.slots)]
    for slot, full in enumerate(fulls):
        io.write("full", slot, full)


def per_head(io, p):
    """One all_gather per head of keys and of values, all in flight together."""
    shards = [io.read("shard", slot) for slot in range(p.slots)]
    heads = [[_gathered_head(p, shard, head) for head in range(p.heads)] for shard in shards]
    for slot in range(p.slots):
        io.write("full", slot, concat(heads[slot]))


def joined(io, p):
    """One all_gather of keys and values in one buffer."""
    mine = concat([flatten(io.read("shard", slot)) for slot in range(p.slots)])
    by_rank = reshape(all_gather(mine), (p.world_size, p.slots, -1))
    for slot in range(p.slots):
        _write(io, p, slot, slice_axis(by_rank, 1, slot, 1))


def permute_ring(io, p):
    """N - 1 steps round the ring: every rank hands on what came from the one before it, keys with values."""
    n = p.world_size
    if p.heads * n * n > MOST_PIECES:
        not_applicable("more pieces than one layout should have")
    to_the_next = [(r, (r + 1) % n) for r in range(n)]
    moving = [io.read("shard", slot) for slot in range(p.slots)]
    came = [moving]
    for _ in range(n - 1):
        moving = [collective_permute(piece, to_the_next) for piece in moving]
        came += [moving]
    by_rank = [[(r - source) % n for source in range(n)] for r in range(n)]
    for slot in range(p.slots):
        stacked = reshape(concat([pieces[slot] for pieces in came]), (n, -1))
        _write(io, p, slot, index_select(stacked, by_rank))


def _gathered_head(p, shard, head):
    """The whole of one head, which lies as it is gathered: a head's positions follow each other."""
    return reshape(all_gather(flatten(slice_axis(shard, 0, head, 1))), (1, p.sequence, p.head_dim))


def _write(io, p, slot, by_rank):
    """Put the pieces of a slot, by rank, in the order of the sequence."""
    heads, positions, width = p.shard_shape
    pieces = reshape(by_rank, (p.world_size, heads, positions, width))
    io.write("full", slot, reshape(permute_dims(pieces, (1, 0, 2, 3)), p.shape))


LIBRARY = Library(
    developer=("per_slot", "per_head"),
    hand_bundled="joined",
    others=("permute_ring",),
)
