"""Ways of summing values over ranks: f(values, p) gives the totals, in order and shape. Read, never executed."""

from overlayccl_core.program.language import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    reduce_scatter,
    reduce_sum,
    reshape,
)
from overlayccl_core.strategies.ways import buffers


def coalesced(values, p):
    """One all_reduce of the list of values, without a buffer."""
    return all_reduce(values, "sum")


def reduce_scatter_all_gather(values, p):
    """Each rank sums its share, then all gather the shares."""
    share = reduce_scatter(buffers.padded(buffers.joined(values), p.world_size))
    return buffers.apart(all_gather(share), values)


def all_to_all_sum(values, p):
    """Each rank gets its share of everybody's values and adds them up; then all gather the shares."""
    exchanged = all_to_all(buffers.padded(buffers.joined(values), p.world_size))
    share = reduce_sum(reshape(exchanged, (p.world_size, -1)), 0)
    return buffers.apart(all_gather(share), values)


def gather_and_sum(values, p):
    """Everybody gathers everybody's values and adds them up: one gather."""
    buffers.from_everybody(p)
    gathered = all_gather(reshape(buffers.joined(values), (1, -1)))
    return buffers.apart(reduce_sum(gathered, 0), values)


def all_to_all_of_copies(values, p):
    """Everybody sends its values to everybody, who adds them up: one exchange, N times the bytes."""
    buffers.from_everybody(p)
    copies = broadcast(buffers.joined(values), 0, p.world_size)
    return buffers.apart(reduce_sum(all_to_all(copies), 0), values)


def hierarchical(values, p):
    """Scatter the sums over the ranks of a node, sum the shares across nodes, gather within the node."""
    within, across = buffers.tiers(p)
    share = reduce_scatter(buffers.padded(buffers.joined(values), p.ranks_per_node), 0, within)
    return buffers.apart(all_gather(all_reduce(share, "sum", across), 0, within), values)
