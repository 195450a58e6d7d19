"""Known ways of summing what attention and MLP of a parallel block add. Read, never executed."""

from overlayccl_core.program.language import Library, add, all_reduce, boundary
from overlayccl_core.strategies.ways import buffers, lossy_sums, sums


def developer(io, p):
    """Both parts added, one all_reduce per microbatch and block, as GPT-J writes it; a graph per microbatch."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            io.write("total", m, layer, all_reduce(_added(io, p, m, layer), "sum"))
        boundary()


def two_sums(io, p):
    """One all_reduce per part, added afterwards: two row-parallel layers that know nothing of each other."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = [
                all_reduce(io.read("partial", m, layer, part), "sum") for part in range(p.parts)
            ]
            io.write("total", m, layer, add(attention, mlp))
        boundary()


def single_graph(io, p):
    """The developer's collectives, not merged: those of one block are in flight together."""
    _each_block(io, p, lambda partials, p: [all_reduce(x, "sum") for x in partials])


def merged_over_microbatches(io, p):
    """One all_reduce per block for the partial sums of all M microbatches."""
    _each_block(io, p, buffers.reduced)


def _each_block(io, p, way):
    """The partial sums of all microbatches of a block, both parts of each added, by a way of summing."""
    for layer in p.layer_order:
        partials = [_added(io, p, m, layer) for m in range(p.microbatches)]
        for m, total in enumerate(way(partials, p)):
            io.write("total", m, layer, total)


def _added(io, p, m, layer):
    """What attention and MLP of a block add on this rank."""
    attention, mlp = [io.read("partial", m, layer, part) for part in range(p.parts)]
    return add(attention, mlp)


LIBRARY = Library(
    developer="developer",
    single_graph="single_graph",
    hand_bundled="merged_over_microbatches",
    others=("two_sums",),
    ways=((sums, _each_block), (lossy_sums, _each_block)),
)
