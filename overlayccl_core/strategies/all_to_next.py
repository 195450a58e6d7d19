"""Known ways of handing a buffer to the next rank. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_to_all,
    boundary,
    collective_permute,
    concat,
    flatten,
    index_select,
    not_applicable,
    pad,
    reduce_scatter,
    reshape,
    slice_axis,
    split,
)
from overlayccl_core.strategies.ways import buffers, nexts

PIECES = 4  # in flight


def direct(io, p):
    """One permute of whole buffers."""
    io.write("received", collective_permute(io.read("given"), _pairs(p)))


def in_pieces(io, p):
    """A permute for each of four pieces, all in flight together."""
    pieces = split(buffers.padded(io.read("given"), PIECES), PIECES)
    came = concat([collective_permute(piece, _pairs(p)) for piece in pieces])
    io.write("received", slice_axis(came, 0, 0, p.elements))


def odd_even(io, p):
    """Sends and receives that block, by pairs: even ranks send, then odd ones, so nobody does both at once. In a
    ring of an odd number of ranks the last one sends after both."""
    x = io.read("given")
    came = []
    for turn in range(3):
        pairs = [pair for pair in _pairs(p) if _turn(p, pair[0]) == turn]
        came += [collective_permute(x, pairs) if len(pairs) > 0 else x]
        boundary()
    before = [(r - 1) % p.world_size for r in range(p.world_size)]
    io.write("received", _of_each_rank(came, [_turn(p, r) for r in before]))


def gather_take(io, p):
    """Everybody gathers all buffers, and keeps that of the rank before."""
    _take(io, p, all_gather(reshape(io.read("given"), (1, -1))))


def all_to_all_take(io, p):
    """An exchange in which the part for the next rank is the buffer, and all others are zeros."""
    _take(io, p, all_to_all(_in_slots(io, p)))


def reduce_scatter_slots(io, p):
    """Everybody has its buffer in the next rank's slot of a buffer of zeros; the sums are handed out."""
    io.write("received", flatten(reduce_scatter(_in_slots(io, p))))


def pair_gather(io, p):
    """A gather in pairs that begin with an even rank, and one in those that begin with an odd one; the second rank
    of each keeps the buffer of the first."""
    n = p.world_size
    if n % 2 > 0:
        not_applicable("an odd number of ranks")
    x = io.read("given")
    both = [all_gather(x, 0, [[r, (r + 1) % n] for r in range(first, n, 2)]) for first in range(2)]
    firsts = [slice_axis(gathered, 0, 0, p.elements) for gathered in both]
    io.write("received", _of_each_rank(firsts, [(r + 1) % 2 for r in range(n)]))


def scattered(io, p):
    """What leaves a node is scattered over its ranks; each sends a piece to the rank with its place in the next
    node, over a link of its own, and the first rank there gathers the pieces. Within nodes: direct."""
    _scattered(io, p, 1)


def scattered_in_pieces(io, p):
    """The same in four parts: one is scattered while another crosses, and a third is gathered."""
    _scattered(io, p, PIECES)


def scattered_by_all_to_all(io, p):
    """Scattered by an all_to_all of the node, gathered by an all_gather: fewer calls, more bytes in the node."""
    within, _ = buffers.tiers(p)
    x = io.read("given")
    by_place = reshape(buffers.padded(x, p.ranks_per_node), (p.ranks_per_node, -1))
    of_last = slice_axis(all_to_all(by_place, 0, within), 0, p.ranks_per_node - 1, 1)
    near = _handed_on_within(x, p)
    _write(io, p, near, all_gather(_crossed(flatten(of_last), p), 0, within))


def _scattered(io, p, parts):
    """Buffers in so many parts; each is scattered, crosses and is gathered."""
    x = io.read("given")
    starts = range(0, p.elements, -(-p.elements // parts))
    lengths = [min(-(-p.elements // parts), p.elements - start) for start in starts]
    mine = [_my_piece(slice_axis(x, 0, start, n), p) for start, n in zip(starts, lengths, strict=True)]
    near = _handed_on_within(x, p)
    crossed = [_crossed(piece, p) for piece in mine]
    _write(io, p, near, concat([_gathered(piece, p, n) for piece, n in zip(crossed, lengths, strict=True)]))


def _sent(io, p, way):
    """The buffer, by a way of sending to the next rank."""
    io.write("received", way(io.read("given"), p))


def _pairs(p):
    """(source, destination): each rank and the next."""
    n = p.world_size
    return [(r, (r + 1) % n) for r in range(n if p.round else n - 1)]


def _turn(p, source):
    """When a rank sends: 0 for even ones, 1 for odd ones, 2 where its neighbours send at both times."""
    return 2 if p.world_size % 2 > 0 and source == p.world_size - 1 else source % 2


def _in_slots(io, p):
    """A slot for each rank, (N, elements), of which the next one's has my buffer, and all others zeros."""
    n = p.world_size
    return pad(reshape(io.read("given"), (1, -1)), 0, [(r + 1) % n for r in range(n)], n)


def _take(io, p, by_source):
    """Of (N, elements), the row of the rank before."""
    first = p.world_size - 1 if p.round else -1
    sources = [[r - 1 if r > 0 else first] for r in range(p.world_size)]
    io.write("received", flatten(index_select(by_source, sources)))


def _of_each_rank(values, which):
    """values[which[rank]] on each rank."""
    size = values[0].shape[0]
    return slice_axis(concat(values), 0, [place * size for place in which], size)


def _leaving(p):
    """The last ranks of nodes: what they send leaves the node."""
    size, n = p.ranks_per_node, p.world_size
    if size == n:
        not_applicable("one tier")
    if size == 1:
        not_applicable("one rank on a node")
    return [r for r in range(size - 1, n, size) if p.round or r < n - 1]


def _my_piece(x, p):
    """What leaves the node, scattered over its ranks: the piece of each, by its place."""
    size = p.ranks_per_node
    pieces = split(buffers.padded(x, size), size)
    mine = [
        collective_permute(pieces[place], [(last, last - size + 1 + place) for last in _leaving(p)])
        for place in range(size - 1)
    ]
    mine += [pieces[size - 1]]
    return _of_each_rank(mine, [r % size for r in range(p.world_size)])


def _crossed(piece, p):
    """Each rank's piece on the rank with its place in the next node."""
    size, n = p.ranks_per_node, p.world_size
    firsts = [last - size + 1 for last in _leaving(p)]
    sending = [first + place for first in firsts for place in range(size)]
    return collective_permute(piece, [(r, (r + size) % n) for r in sending])


def _gathered(piece, p, length):
    """The pieces of a node on its first rank, end to end: as many as have something of so many elements."""
    firsts = [(last + 1) % p.world_size for last in _leaving(p)]
    pieces = [piece]
    for place in range(1, -(-length // piece.shape[0])):
        pieces += [collective_permute(piece, [(first + place, first) for first in firsts])]
    return slice_axis(concat(pieces), 0, 0, length)


def _handed_on_within(x, p):
    """Buffers of the ranks before, but for the first rank of a node."""
    return collective_permute(x, [(r, r + 1) for r in range(p.world_size) if (r + 1) % p.ranks_per_node > 0])


def _write(io, p, near, far):
    """What came from within the node, and on its first rank what came from the node before."""
    which = [0 if r % p.ranks_per_node > 0 else 1 for r in range(p.world_size)]
    io.write("received", _of_each_rank([near, slice_axis(far, 0, 0, p.elements)], which))


LIBRARY = Library(
    developer=("direct", "gather_take"),
    others=(
        "in_pieces",
        "odd_even",
        "all_to_all_take",
        "reduce_scatter_slots",
        "pair_gather",
        "scattered",
        "scattered_in_pieces",
        "scattered_by_all_to_all",
    ),
    ways=((nexts, _sent),),
)
