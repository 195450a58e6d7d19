"""Known ways of gathering sharded parameters layer by layer. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    boundary,
    flatten,
    permute_dims,
    reshape,
    slice_axis,
)
from overlayccl_core.strategies.ways import buffers, gathers

MIB = 1048576


def prefetched(io, p):
    """One all_gather per microbatch and layer, the next layer's in flight while a layer runs, as FSDP does; a graph
    per microbatch."""
    shards = _read(io, p)
    for m in range(p.microbatches):
        _one_ahead(io, p, shards, [m], lambda shard: all_gather(shard, p.shard_axis))
        boundary()


def one_by_one(io, p):
    """One all_gather per microbatch and layer when the layer needs it; a graph per microbatch."""
    shards = _read(io, p)
    for m in range(p.microbatches):
        for i, layer in enumerate(p.layer_order):
            io.write("full", m, layer, all_gather(shards[i], p.shard_axis))
        boundary()


def gathered_once(io, p):
    """One all_gather per layer; all layers are kept for all microbatches, one microbatch after another."""
    fulls = [all_gather(shard, p.shard_axis) for shard in _read(io, p)]
    for m in range(p.microbatches):
        for i, layer in enumerate(p.layer_order):
            io.write("full", m, layer, fulls[i])


def in_lockstep(io, p):
    """One all_gather per layer, the next one in flight; all microbatches pass a layer before the next."""
    _one_ahead(io, p, _read(io, p), range(p.microbatches), lambda shard: all_gather(shard, p.shard_axis))


def merged_under_256_mib(io, p):
    """One all_gather for as many layers as fit into 256 MiB; all microbatches pass them before the next."""
    _in_groups(io, p, 256 * MIB, lambda x, p: all_gather(x))


def merged_under_512_mib(io, p):
    """One all_gather for as many layers as fit into 512 MiB; all microbatches pass them before the next."""
    _in_groups(io, p, 512 * MIB, lambda x, p: all_gather(x))


def _lockstep(io, p, way):
    """`in_lockstep` by another way of gathering."""
    shards = _read(io, p)
    _one_ahead(io, p, shards, range(p.microbatches), lambda shard: _whole(p, way(flatten(shard), p), 0))


def _read(io, p):
    """The shards in the order in which the layers need them."""
    return [io.read("shard", layer) for layer in p.layer_order]


def _one_ahead(io, p, shards, microbatches, gathered):
    """Each layer for some microbatches, while the next one is gathered."""
    following = gathered(shards[0])
    for i, layer in enumerate(p.layer_order):
        full = following
        if i + 1 < p.layers:
            following = gathered(shards[i + 1])
        for m in microbatches:
            io.write("full", m, layer, full)


def _merged(io, p, way):
    """`merged_under_512_mib` by another way of gathering."""
    _in_groups(io, p, 512 * MIB, way)


def _in_groups(io, p, limit, way):
    """Groups of layers in one buffer each, of at most `limit` bytes when gathered; a larger layer is alone."""
    shards = _read(io, p)
    together = max(limit // (p.shape[0] * p.shape[1] * p.element_bytes), 1)
    for first in range(0, p.layers, together):
        layers = p.layer_order[first : first + together]
        by_rank = reshape(way(buffers.joined(shards[first : first + together]), p), (p.world_size, -1))
        fulls = [_whole(p, by_rank, i) for i in range(len(layers))]
        for m in range(p.microbatches):
            for layer, full in zip(layers, fulls, strict=True):
                io.write("full", m, layer, full)


def _whole(p, by_rank, i):
    """The i-th parameter of a gathered group."""
    size = p.shard_shape[0] * p.shard_shape[1]
    shards = reshape(
        slice_axis(by_rank, 1, i * size, size), (p.world_size, p.shard_shape[0], p.shard_shape[1])
    )
    if p.shard_axis == 1:
        shards = permute_dims(shards, (1, 0, 2))
    return reshape(shards, p.shape)


LIBRARY = Library(
    developer="prefetched",
    single_graph="in_lockstep",
    hand_bundled="gathered_once",
    others=("one_by_one", "merged_under_256_mib", "merged_under_512_mib"),
    ways=((gathers, _lockstep), (gathers, _merged)),
)
