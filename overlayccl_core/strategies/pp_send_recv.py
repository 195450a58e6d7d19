"""Known ways of handing activations to the next stage of a pipeline, and gradients back. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    add,
    all_gather,
    all_reduce,
    boundary,
    collective_permute,
    concat,
    flatten,
    pad,
    reshape,
    select,
    slice_axis,
    split,
)


def send_receive(io, p):
    """One permute for each activation and each gradient, as the schedule has them."""
    for name, out, m in _handovers(p):
        io.write(out, m, collective_permute(io.read(name, m), _pairs(p, name)))


def masked_all_reduce(io, p):
    """Where ranks cannot send to one another: each rank writes into its own slot of a buffer of zeros, all add them
    up, and the pair takes its slot. A graph for each."""
    for name, out, m in _handovers(p):
        theirs = _through_buffer(p, name, flatten(io.read(name, m)))
        io.write(out, m, reshape(theirs, p.shape))
        boundary()


def merged_all_reduce(io, p):
    """One such sum for all activations, then one for all gradients: every microbatch is under way at once."""
    for name, out in (("a", "b"), ("ga", "gb")):
        mine = concat([flatten(io.read(name, m)) for m in range(p.microbatches)])
        theirs = split(_through_buffer(p, name, mine), p.microbatches)
        for m in range(p.microbatches):
            io.write(out, m, reshape(theirs[m], p.shape))


def gather_take(io, p):
    """Gather everybody's and keep the pair's."""
    for name, out, m in _handovers(p):
        gathered = all_gather(reshape(io.read(name, m), (1, p.elements)))
        io.write(out, m, reshape(slice_axis(gathered, 0, _partners(p), 1), p.shape))


def pair_all_reduce(io, p):
    """A sum within each pair, to which who receives adds zeros."""
    for name, out, m in _handovers(p):
        mine = select(io.read(name, m), _senders(p, name))
        io.write(out, m, all_reduce(mine, "sum", _groups(p)))


def pair_gather(io, p):
    """A gather within each pair, of which who receives keeps the other half."""
    for name, out, m in _handovers(p):
        both = all_gather(reshape(io.read(name, m), (1, p.elements)), 0, _groups(p))
        half = p.world_size // 2
        theirs = slice_axis(both, 0, [1 if r < half else 0 for r in range(p.world_size)], 1)
        io.write(out, m, reshape(theirs, p.shape))


def both_ways_at_once(io, p):
    """The activation of a microbatch and the gradient of the one before it, in one exchange of the pairs."""
    swap = enumerate(_partners(p))
    for m in range(p.microbatches + 1):
        mine = []
        if m < p.microbatches:
            mine += [select(io.read("a", m), _senders(p, "a"))]
        if m > 0:
            mine += [select(io.read("ga", m - 1), _senders(p, "ga"))]
        theirs = collective_permute(add(mine[0], mine[1]) if len(mine) == 2 else mine[0], swap)
        if m < p.microbatches:
            io.write("b", m, theirs)
        if m > 0:
            io.write("gb", m - 1, theirs)


def _handovers(p):
    """(input, output, microbatch) in the order of the schedule."""
    order = []
    for m in range(p.microbatches + p.held):
        if m >= p.held:
            order += [("ga", "gb", m - p.held)]
        if m < p.microbatches:
            order += [("a", "b", m)]
    return order


def _senders(p, name):
    """Which ranks send: the first half activations, the second gradients."""
    return [(r < p.world_size // 2) == (name == "a") for r in range(p.world_size)]


def _partners(p):
    """The other rank of each rank's pair."""
    return [(r + p.world_size // 2) % p.world_size for r in range(p.world_size)]


def _pairs(p, name):
    """(source, destination) of each pair."""
    senders = _senders(p, name)
    return [pair for pair in enumerate(_partners(p)) if senders[pair[0]]]


def _groups(p):
    """Replica groups: each pair."""
    half = p.world_size // 2
    return [[r, r + half] for r in range(half)]


def _through_buffer(p, name, x):
    """x of the pair's other rank, by a sum over all ranks of buffers with a slot for each pair."""
    half = p.world_size // 2
    slot = [r % half for r in range(p.world_size)]
    mine = reshape(select(x, _senders(p, name)), (1, x.shape[0]))
    total = all_reduce(pad(mine, 0, slot, half))
    return flatten(slice_axis(total, 0, slot, 1))


LIBRARY = Library(
    developer=("send_receive", "masked_all_reduce"),
    others=("merged_all_reduce", "gather_take", "pair_all_reduce", "pair_gather", "both_ways_at_once"),
)
