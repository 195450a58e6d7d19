"""Cheats at the order and the number of what a model needs. Read as text, never executed."""

from overlayccl_core.program.language import all_reduce, concat, flatten, reshape, split


def reference(io, p):
    for m in range(p.microbatches):
        for layer in range(p.layers):
            io.write("total", m, layer, all_reduce(io.read("partial", m, layer)))


def bundles_layers(io, p):
    """Sums all layers at once, before the model has made them. Stopped as ORDER by ORDER."""
    for m in range(p.microbatches):
        partials = [flatten(io.read("partial", m, layer)) for layer in range(p.layers)]
        totals = split(all_reduce(concat(partials)), p.layers)
        for layer in range(p.layers):
            io.write("total", m, layer, reshape(totals[layer], p.shape))


def every_microbatch_is_the_first(io, p):
    """Sums one microbatch and hands it to all. Stopped as WRONG_VALUE by INDEPENDENT_PORTS."""
    for layer in range(p.layers):
        total = all_reduce(io.read("partial", 0, layer))
        for m in range(p.microbatches):
            io.write("total", m, layer, total)
