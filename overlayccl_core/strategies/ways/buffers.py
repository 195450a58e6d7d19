"""Values in one buffer, and the ranks by nodes: what ways are made of. Read, never executed."""

from overlayccl_core.program.language import (
    all_reduce,
    concat,
    flatten,
    not_applicable,
    pad,
    reshape,
    slice_axis,
    split,
)

MOST_RANKS = 64  # that have everybody's pieces: N * N of them in all, and sums of N terms one after the other


def from_everybody(p):
    """Before a way that takes something of each rank to each rank."""
    if p.world_size > MOST_RANKS:
        not_applicable("too many ranks for something of each at each")


def joined(values):
    """All of them, flat, one behind the other."""
    return concat([flatten(x) for x in values])


def apart(buffer, values):
    """The parts of a buffer where `joined` put the values, in their shapes; what is behind them is dropped."""
    sizes = [flatten(x).shape[0] for x in values]
    parts = split(slice_axis(buffer, 0, 0, sum(sizes)), sizes)
    return [reshape(part, x.shape) for part, x in zip(parts, values, strict=True)]


def reduced(values, p):
    """The plain way of summing: one all_reduce of one buffer."""
    return apart(all_reduce(joined(values), "sum"), values)


def padded(x, parts):
    """Zeros behind a flat x, up to a multiple of `parts`."""
    size = x.shape[0]
    return pad(x, 0, 0, (size + parts - 1) // parts * parts)


def tiers(p):
    """Replica groups: the ranks of each node, and the ranks with the same place in their nodes."""
    size, n = p.ranks_per_node, p.world_size
    if size == n:
        not_applicable("one tier")
    within = [range(first, first + size) for first in range(0, n, size)]
    across = [range(place, n, size) for place in range(size)]
    return within, across
