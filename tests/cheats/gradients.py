"""Cheats at gradients of sharded parameters, and honest ways that look like them. Read as text, never executed."""

from overlayccl_core.program.language import add, reduce_scatter, scale


def reference(io, p):
    for layer in reversed(p.layer_order):
        io.write("d_shard", layer, reduce_scatter(_sum(_gradients(io, p, layer))))


def keeps_the_last_microbatch(io, p):
    """A microbatch's gradient takes the place of the one before it: a smaller batch, which still trains.
    Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    for layer in reversed(p.layer_order):
        io.write("d_shard", layer, [reduce_scatter(x) for x in _gradients(io, p, layer)][-1])


def averages_over_microbatches(io, p):
    """The mean in the sum's place, to which Adam is blind. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    for layer in reversed(p.layer_order):
        io.write("d_shard", layer, _averaged(io, p, layer))


def begins_with_the_last_microbatch(io, p):
    """Honest: added in the opposite order, each handed out for itself."""
    for layer in reversed(p.layer_order):
        shards = [reduce_scatter(io.read("d_full", m, layer)) for m in reversed(range(p.microbatches))]
        io.write("d_shard", layer, _sum(shards))


def averages_and_multiplies(io, p):
    """Honest: an average that is multiplied by its number again."""
    for layer in reversed(p.layer_order):
        io.write("d_shard", layer, scale(_averaged(io, p, layer), p.microbatches))


def _gradients(io, p, layer):
    return [io.read("d_full", m, layer) for m in range(p.microbatches)]


def _averaged(io, p, layer):
    return reduce_scatter(scale(_sum(_gradients(io, p, layer)), 1, p.microbatches))


def _sum(values):
    total = values[0]
    for value in values[1:]:
        total = add(total, value)
    return total
