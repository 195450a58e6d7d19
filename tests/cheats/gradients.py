"""Cheats at gradients of sharded parameters, and honest ways that look like them. Read as text, never executed."""

from overlayccl_core.program.language import add, reduce_scatter, scale


def reference(io, p):
    for layer in reversed(p.layer_order):
        total = io.read("d_full", 0, layer)
        for m in range(1, p.microbatches):
            total = add(total, io.read("d_full", m, layer))
        io.write("d_shard", layer, reduce_scatter(total))


def keeps_the_last_microbatch(io, p):
    """A microbatch's gradient takes the place of the one before it: a smaller batch, which still trains.
    Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    for layer in reversed(p.layer_order):
        shard = 0
        for m in range(p.microbatches):
            shard = reduce_scatter(io.read("d_full", m, layer))
        io.write("d_shard", layer, shard)


def averages_over_microbatches(io, p):
    """The mean in the sum's place, to which Adam is blind. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    for layer in reversed(p.layer_order):
        gradients = [io.read("d_full", m, layer) for m in range(p.microbatches)]
        total = gradients[0]
        for gradient in gradients[1:]:
            total = add(total, gradient)
        io.write("d_shard", layer, reduce_scatter(scale(total, 1, p.microbatches)))


def begins_with_the_last_microbatch(io, p):
    """Honest: added in the opposite order, each handed out for itself."""
    for layer in reversed(p.layer_order):
        shards = [reduce_scatter(io.read("d_full", m, layer)) for m in reversed(range(p.microbatches))]
        total = shards[0]
        for shard in shards[1:]:
            total = add(total, shard)
        io.write("d_shard", layer, total)


def averages_and_multiplies(io, p):
    """Honest: an average that is multiplied by its number again."""
    for layer in reversed(p.layer_order):
        total = io.read("d_full", 0, layer)
        for m in range(1, p.microbatches):
            total = add(total, io.read("d_full", m, layer))
        shard = reduce_scatter(scale(total, 1, p.microbatches))
        io.write("d_shard", layer, scale(shard, p.microbatches))
