"""Known ways of summing what attention and MLP of a parallel block add. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_reduce,
    boundary,
    concat,
    flatten,
    pad,
    reduce_scatter,
    reshape,
    slice_axis,
    split,
)


def developer(io, p):
    """Two all_reduce per microbatch and block, as the model is written; a graph per microbatch."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            for part in range(p.parts):
                io.write("total", m, layer, part, all_reduce(io.read("partial", m, layer, part), "sum"))
        boundary()


def single_graph(io, p):
    """The developer's collectives, not merged: those of one block are in flight together."""
    for layer in p.layer_order:
        sums = [all_reduce(io.read("partial", at[0], at[1], at[2]), "sum") for at in _places(p, layer)]
        for at, total in zip(_places(p, layer), sums, strict=True):
            io.write("total", at[0], at[1], at[2], total)


def stacked(io, p):
    """One all_reduce per microbatch and block, of both partial sums."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            places = [(m, layer, part) for part in range(p.parts)]
            _write(io, p, places, all_reduce(_read(io, places), "sum"))


def merged_over_microbatches(io, p):
    """One all_reduce per block for both partial sums of all M microbatches."""
    for layer in p.layer_order:
        places = _places(p, layer)
        _write(io, p, places, all_reduce(_read(io, places), "sum"))


def reduce_scatter_all_gather(io, p):
    """Each rank sums its share of a block, then all gather the shares."""
    for layer in p.layer_order:
        places = _places(p, layer)
        share = reduce_scatter(_padded(_read(io, places), p.world_size))
        _write(io, p, places, all_gather(share))


def _places(p, layer):
    """(microbatch, block, part) of all partial sums of a block."""
    return [(m, layer, part) for m in range(p.microbatches) for part in range(p.parts)]


def _read(io, places):
    """Some partial sums, flat."""
    return concat([flatten(io.read("partial", m, layer, part)) for m, layer, part in places])


def _write(io, p, places, totals):
    """Hand out what `_read` joined; padding behind it is dropped."""
    sums = split(slice_axis(totals, 0, 0, len(places) * p.elements), len(places))
    for at, total in zip(places, sums, strict=True):
        io.write("total", at[0], at[1], at[2], reshape(total, p.shape))


def _padded(x, parts):
    """Zeros behind x, up to a multiple of `parts`."""
    return pad(x, 0, 0, (x.shape[0] + parts - 1) // parts * parts)


LIBRARY = Library(
    developer="developer",
    single_graph="single_graph",
    hand_bundled="stacked",
    others=("merged_over_microbatches", "reduce_scatter_all_gather"),
)
