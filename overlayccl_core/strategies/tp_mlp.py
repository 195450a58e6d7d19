"""Known ways of summing partial activations over ranks. Read, never executed."""

from overlayccl_core.program.language import Library, all_reduce, boundary
from overlayccl_core.strategies.ways import buffers, lossy_sums, sums


def developer(io, p):
    """One all_reduce per microbatch and layer, as the model is written; a graph per microbatch."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            io.write("total", m, layer, all_reduce(io.read("partial", m, layer), "sum"))
        boundary()


def single_graph(io, p):
    """The developer's collectives, not merged: those of one layer are in flight together."""
    for layer in p.layer_order:
        totals = [all_reduce(io.read("partial", m, layer), "sum") for m in range(p.microbatches)]
        for m in range(p.microbatches):
            io.write("total", m, layer, totals[m])


def merged_over_microbatches(io, p):
    """One all_reduce per layer for the partial sums of all M microbatches."""
    _each_layer(io, p, buffers.reduced)


def _each_layer(io, p, way):
    """The partial sums of all microbatches of a layer, by a way of summing."""
    for layer in p.layer_order:
        partials = [io.read("partial", m, layer) for m in range(p.microbatches)]
        for m, total in enumerate(way(partials, p)):
            io.write("total", m, layer, total)


LIBRARY = Library(
    developer="developer",
    single_graph="single_graph",
    hand_bundled="merged_over_microbatches",
    ways=((sums, _each_layer), (lossy_sums, _each_layer)),
)
