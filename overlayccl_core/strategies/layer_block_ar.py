"""Known ways of summing what attention and MLP of a parallel block add. Read, never executed."""

from overlayccl_core.program.language import Library, all_reduce, boundary
from overlayccl_core.strategies.ways import buffers, lossy_sums, sums


def developer(io, p):
    """Two all_reduce per microbatch and block, as the model is written; a graph per microbatch."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            for part in range(p.parts):
                io.write("total", m, layer, part, all_reduce(io.read("partial", m, layer, part), "sum"))
        boundary()


def single_graph(io, p):
    """The developer's collectives, not merged: those of one block are in flight together."""
    _each_block(io, p, lambda partials, p: [all_reduce(x, "sum") for x in partials])


def stacked(io, p):
    """One all_reduce per microbatch and block, of both partial sums."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            _summed(io, p, [(m, layer, part) for part in range(p.parts)], buffers.reduced)


def merged_over_microbatches(io, p):
    """One all_reduce per block for both partial sums of all M microbatches."""
    _each_block(io, p, buffers.reduced)


def _each_block(io, p, way):
    """All partial sums of a block, by a way of summing."""
    for layer in p.layer_order:
        places = [(m, layer, part) for m in range(p.microbatches) for part in range(p.parts)]
        _summed(io, p, places, way)


def _summed(io, p, places, way):
    """Some partial sums, (microbatch, block, part) each, by a way of summing."""
    partials = [io.read("partial", m, layer, part) for m, layer, part in places]
    for at, total in zip(places, way(partials, p), strict=True):
        io.write("total", at[0], at[1], at[2], total)


LIBRARY = Library(
    developer="developer",
    single_graph="single_graph",
    hand_bundled="stacked",
    others=("merged_over_microbatches",),
    ways=((sums, _each_block), (lossy_sums, _each_block)),
)
