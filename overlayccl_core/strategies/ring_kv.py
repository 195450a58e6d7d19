"""Known ways of gathering keys and values along a sequence. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    collective_permute,
    concat,
    flatten,
    index_select,
    permute_dims,
    reshape,
    slice_axis,
)


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
    _write(io, p, all_gather(_read(io, p)))


def permute_ring(io, p):
    """N - 1 steps round the ring: every rank hands on to the next one what came from the one before."""
    n = p.world_size
    moving = _read(io, p)
    came = [moving]
    for _ in range(n - 1):
        moving = collective_permute(moving, [(r, (r + 1) % n) for r in range(n)])
        came += [moving]
    stacked = reshape(concat(came), (n, -1))
    by_rank = index_select(stacked, [[(r - source) % n for source in range(n)] for r in range(n)])
    _write(io, p, flatten(by_rank))


def _gathered_head(p, shard, head):
    """The whole of one head, which lies as it is gathered: a head's positions follow each other."""
    return reshape(all_gather(flatten(slice_axis(shard, 0, head, 1))), (1, p.sequence, p.head_dim))


def _read(io, p):
    """This rank's keys and values, flat."""
    return concat([flatten(io.read("shard", slot)) for slot in range(p.slots)])


def _write(io, p, gathered):
    """Put what all ranks' `_read` gave, by rank, in the order of the sequence."""
    heads, positions, width = p.shard_shape
    by_rank = reshape(gathered, (p.world_size, p.slots, heads, positions, width))
    in_order = permute_dims(by_rank, (1, 2, 0, 3, 4))
    for slot in range(p.slots):
        io.write("full", slot, reshape(slice_axis(in_order, 0, slot, 1), p.shape))


LIBRARY = Library(
    developer=("per_slot", "per_head"),
    hand_bundled="joined",
    others=("permute_ring",),
)
