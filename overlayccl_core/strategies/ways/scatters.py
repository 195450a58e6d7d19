"""Ways of scattering sums: f(x, p) takes parts by destination, (N, elements), and gives the sum over ranks of mine,
(elements,). Read, never executed."""

from overlayccl_core.program.language import all_reduce, flatten, reduce_scatter, reduce_sum, slice_axis
from overlayccl_core.strategies.ways import buffers, exchanges


def reduce_scattered(x, p):
    """The library's own reduce_scatter."""
    return flatten(reduce_scatter(x))


def sum_and_slice(x, p):
    """All sums for everybody; each rank keeps its part."""
    buffers.from_everybody(p)
    return flatten(slice_axis(all_reduce(x, "sum"), 0, range(p.world_size), 1))


def _exchanged(x, p, way):
    """Each rank gets its parts from everybody by an exchange, and adds them up."""
    return reduce_sum(way(x, p), 0)


DERIVED = ((exchanges, _exchanged),)
