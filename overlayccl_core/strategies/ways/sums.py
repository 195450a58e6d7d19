"""Ways of summing values over ranks: f(values, p) gives the totals, in order and shape. Read, never executed."""

from overlayccl_core.program.language import (
    all_gather,
    all_reduce,
    broadcast,
    chunked,
    flatten,
    reduce_scatter,
    reduce_sum,
    reshape,
)
from overlayccl_core.strategies.ways import buffers, chunk_sums, exchanges, gathers


def coalesced(values, p):
    """One all_reduce of the list of values, without a buffer."""
    return all_reduce(values, "sum")


def reduce_scatter_all_gather(values, p):
    """Each rank sums its share, then all gather the shares."""
    share = reduce_scatter(buffers.padded(buffers.joined(values), p.world_size))
    return buffers.apart(all_gather(share), values)


def all_to_all_sum(values, p):
    """Each rank gets its share of everybody's values and adds them up; then all gather the shares."""
    return _scattered(values, p, exchanges.native)


def gather_and_sum(values, p):
    """Everybody gathers everybody's values and adds them up: one gather."""
    return _added(values, p, lambda x, p: all_gather(reshape(x, (1, -1))))


def all_to_all_of_copies(values, p):
    """Everybody sends its values to everybody, who adds them up: one exchange, N times the bytes."""
    return _added(values, p, gathers.all_to_all_of_copies)


def hierarchical(values, p):
    """Scatter the sums over the ranks of a node, sum the shares across nodes, gather within the node."""
    within, across = buffers.tiers(p)
    share = reduce_scatter(buffers.padded(buffers.joined(values), p.ranks_per_node), 0, within)
    return buffers.apart(all_gather(all_reduce(share, "sum", across), 0, within), values)


def _in_chunks(values, p, program):
    """By a chunk program that adds in place; a chunk for each rank."""
    buffers.from_everybody(p)
    return buffers.apart(
        chunked(program, buffers.padded(buffers.joined(values), p.world_size), p.world_size), values
    )


def _added(values, p, way):
    """Everybody gathers everybody's values and adds them up."""
    buffers.from_everybody(p)
    return buffers.apart(reduce_sum(way(buffers.joined(values), p), 0), values)


def _scattered(values, p, way):
    """Each rank gets its share of everybody's values by an exchange and adds up; then all gather the shares."""
    return _in_shares(values, p, way, lambda share, p: all_gather(share))


def _twice(values, p, way):
    """The same, and everybody sends its share to everybody by an exchange, too."""
    return _in_shares(values, p, way, lambda share, p: flatten(way(broadcast(share, 0, p.world_size), p)))


def _in_shares(values, p, way, gather):
    exchanged = way(buffers.padded(buffers.joined(values), p.world_size), p)
    share = reduce_sum(reshape(exchanged, (p.world_size, -1)), 0)
    return buffers.apart(gather(share, p), values)


DERIVED = ((chunk_sums, _in_chunks), (gathers, _added), (exchanges, _scattered), (exchanges, _twice))
