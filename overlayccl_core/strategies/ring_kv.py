"""Known ways of gathering keys and values along a sequence. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    concat,
    flatten,
    permute_dims,
    reshape,
    slice_axis,
)
from overlayccl_core.strategies.ways import buffers, gathers


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
    _in_one_buffer(io, p, lambda x, p: all_gather(x))


def _gathered_head(p, shard, head):
    """The whole of one head, which lies as it is gathered: a head's positions follow each other."""
    return reshape(all_gather(flatten(slice_axis(shard, 0, head, 1))), (1, p.sequence, p.head_dim))


def _in_one_buffer(io, p, way):
    """Keys and values in one buffer, by a way of gathering; pieces then stand in the order of the sequence."""
    shards = [io.read("shard", slot) for slot in range(p.slots)]
    by_rank = reshape(way(buffers.joined(shards), p), (p.world_size, p.slots, -1))
    heads, positions, width = p.shard_shape
    for slot in range(p.slots):
        pieces = reshape(slice_axis(by_rank, 1, slot, 1), (p.world_size, heads, positions, width))
        io.write("full", slot, reshape(permute_dims(pieces, (1, 0, 2, 3)), p.shape))


LIBRARY = Library(
    developer=("per_slot", "per_head"), hand_bundled="joined", ways=((gathers, _in_one_buffer),)
)
