"""Known ways of summing partial activations over ranks. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_reduce,
    all_to_all,
    boundary,
    broadcast,
    cast,
    concat,
    flatten,
    not_applicable,
    pad,
    reduce_scatter,
    reduce_sum,
    reshape,
    slice_axis,
    split,
)


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
    for layer in p.layer_order:
        _write(io, p, layer, all_reduce(_read(io, p, layer), "sum"))


def reduce_scatter_all_gather(io, p):
    """Each rank sums its share of a layer, then all gather the shares."""
    for layer in p.layer_order:
        partials = _padded(_read(io, p, layer), p.world_size)
        share = reduce_scatter(partials)
        _write(io, p, layer, all_gather(share))


def all_to_all_sum(io, p):
    """Each rank gets its share of everybody's partial sums and adds them up; then all gather the shares."""
    for layer in p.layer_order:
        partials = _padded(_read(io, p, layer), p.world_size)
        of_each_rank = reshape(all_to_all(partials), (p.world_size, -1))
        _write(io, p, layer, all_gather(reduce_sum(of_each_rank, 0)))


def all_to_all_of_copies(io, p):
    """Everybody sends its partial sums to everybody, who adds them up: one exchange, N times the bytes."""
    for layer in p.layer_order:
        copies = broadcast(_read(io, p, layer), 0, p.world_size)
        _write(io, p, layer, reduce_sum(all_to_all(copies), 0))


def bf16_on_the_wire(io, p):
    """Half the bytes, and sums in 16 bits: lossy."""
    if p.dtype == "bfloat16":
        not_applicable("the activations are bfloat16 already")
    for layer in p.layer_order:
        total = all_reduce(cast(_read(io, p, layer), "bfloat16"), "sum")
        _write(io, p, layer, cast(total, p.dtype))


def hierarchical(io, p):
    """Scatter the sums over the ranks of a node, sum the shares across nodes, gather within the node."""
    if p.ranks_per_node == p.world_size:
        not_applicable("one tier")
    within, across = _tiers(p)
    for layer in p.layer_order:
        partials = _padded(_read(io, p, layer), p.ranks_per_node)
        share = all_reduce(reduce_scatter(partials, 0, within), "sum", across)
        _write(io, p, layer, all_gather(share, 0, within))


def _read(io, p, layer):
    """The partial sums of all microbatches of a layer, flat."""
    return concat([flatten(io.read("partial", m, layer)) for m in range(p.microbatches)])


def _write(io, p, layer, totals):
    """Hand out what `_read` joined; padding behind it is dropped."""
    sums = slice_axis(totals, 0, 0, p.microbatches * p.elements)
    for m, total in enumerate(split(sums, p.microbatches)):
        io.write("total", m, layer, reshape(total, p.shape))


def _padded(x, parts):
    """Zeros behind x, up to a multiple of `parts`."""
    size = x.shape[0]
    return pad(x, 0, 0, (size + parts - 1) // parts * parts)


def _tiers(p):
    """Replica groups: the ranks of each node, and the ranks with the same place in their nodes."""
    size, n = p.ranks_per_node, p.world_size
    within = [range(first, first + size) for first in range(0, n, size)]
    across = [range(place, n, size) for place in range(size)]
    return within, across


LIBRARY = Library(
    developer="developer",
    single_graph="single_graph",
    hand_bundled="merged_over_microbatches",
    others=(
        "reduce_scatter_all_gather",
        "all_to_all_sum",
        "all_to_all_of_copies",
        "bf16_on_the_wire",
        "hierarchical",
    ),
)
