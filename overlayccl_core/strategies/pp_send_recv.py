"""Known ways of handing activations to the next stage of a pipeline, and gradients back. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    add,
    all_gather,
    all_reduce,
    boundary,
    collective_permute,
    concat,
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
        io.write(out, m, _my_slot(p, all_reduce(_buffer(p, name, io.read(name, m)))))
        boundary()


def merged_all_reduce(io, p):
    """One such sum for all activations, then one for all gradients: every microbatch is under way at once."""
    for name, out in (("a", "b"), ("ga", "gb")):
        buffers = [_buffer(p, name, io.read(name, m)) for m in range(p.microbatches)]
        totals = split(all_reduce(concat(buffers)), p.microbatches)
        for m in range(p.microbatches):
            io.write(out, m, _my_slot(p, totals[m]))


def gather_take(io, p):
    """Gather everybody's and keep the sender's of the pair."""
    half = p.world_size // 2
    for name, out, m in _handovers(p):
        gathered = all_gather(reshape(io.read(name, m), (1, p.elements)))
        senders = [r % half + (0 if name == "a" else half) for r in range(p.world_size)]
        io.write(out, m, reshape(slice_axis(gathered, 0, senders, 1), p.shape))


def pair_all_reduce(io, p):
    """A sum within each pair, to which who receives adds zeros."""
    for name, out, m in _handovers(p):
        mine = select(io.read(name, m), _senders(p, name))
        io.write(out, m, all_reduce(mine, "sum", _groups(p)))


def pair_gather(io, p):
    """A gather within each pair, of which both keep the sender's half."""
    for name, out, m in _handovers(p):
        both = all_gather(reshape(io.read(name, m), (1, p.elements)), 0, _groups(p))
        io.write(out, m, reshape(slice_axis(both, 0, 0 if name == "a" else 1, 1), p.shape))


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


def _buffer(p, name, x):
    """A buffer of zeros with a slot for each pair, in which who sends has x."""
    mine = reshape(select(x, _senders(p, name)), (1, p.elements))
    return pad(mine, 0, _slots(p), p.world_size // 2)


def _my_slot(p, buffer):
    """What the pair has in a buffer."""
    return reshape(slice_axis(buffer, 0, _slots(p), 1), p.shape)


def _slots(p):
    """The slot of each rank's pair."""
    return [r % (p.world_size // 2) for r in range(p.world_size)]


LIBRARY = Library(
    developer=("send_receive", "masked_all_reduce"),
    others=("merged_all_reduce", "gather_take", "pair_all_reduce", "pair_gather", "both_ways_at_once"),
)
