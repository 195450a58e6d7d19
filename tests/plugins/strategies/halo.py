"""Known ways of bringing the edges of the neighbours. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    collective_permute,
    concat,
    pad,
    slice_axis,
)


def two_permutes(io, p):
    """One permute to the right, one to the left."""
    part = io.read("part")
    last = p.world_size - 1
    left = collective_permute(
        slice_axis(part, 0, p.elements - p.edge, p.edge), [(r, r + 1) for r in range(last)]
    )
    right = collective_permute(slice_axis(part, 0, 0, p.edge), [(r + 1, r) for r in range(last)])
    io.write("wide", concat([left, part, right]))


def gather_slice(io, p):
    """Everybody gets the whole row, with zeros at its ends, and keeps a window of it."""
    row = all_gather(io.read("part"))
    padded = pad(row, 0, p.edge, p.world_size * p.elements + 2 * p.edge)
    starts = [r * p.elements for r in range(p.world_size)]
    io.write("wide", slice_axis(padded, 0, starts, p.elements + 2 * p.edge))


def gather_edges(io, p):
    """Everybody gets all edges, and keeps those of its neighbours."""
    part = io.read("part")
    n, e = p.world_size, p.edge
    mine = concat([slice_axis(part, 0, 0, e), slice_axis(part, 0, p.elements - e, e)])
    edges = pad(all_gather(mine), 0, 2 * e, 2 * (n + 2) * e)
    left = slice_axis(edges, 0, [(2 * r + 1) * e for r in range(n)], e)
    right = slice_axis(edges, 0, [(2 * r + 4) * e for r in range(n)], e)
    io.write("wide", concat([left, part, right]))


LIBRARY = Library(developer="two_permutes", others=("gather_slice", "gather_edges"))
