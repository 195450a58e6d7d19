"""Known ways of causal attention over a sequence in pieces on the ranks. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    add,
    all_gather,
    all_to_all,
    attend,
    attend_backward,
    cast,
    collective_permute,
    combine,
    concat,
    flatten,
    not_applicable,
    permute_dims,
    reduce_scatter,
    reshape,
    split,
)
from overlayccl_core.strategies.ways import buffers, exchanges, gathers, scatters


def gathered(io, p):
    """Keys and values by an all_gather each, in flight together; each rank attends to all that it may see."""
    q, k, v = _read(io)
    _attend(io, p, q, all_gather(k, 1), all_gather(v, 1))


def joined(io, p):
    """The same, of keys and values in one buffer."""
    _gathered(io, p, lambda x, p: all_gather(x))


def _gathered(io, p, way):
    """Keys and values in one buffer, by a way of gathering."""
    q, k, v = _read(io)
    k, v = _whole(p, way(buffers.joined([k, v]), p), 2)
    _attend(io, p, q, k, v)


def ring(io, p):
    """Keys and values go round the ring; each rank attends to what it has while the next is on its way, and
    combines what it found (Liu et al. 2023, Ring attention with blockwise transformers)."""
    q, k, v = _read(io)
    _round(io, p, q, [k, v], lambda moving: moving)


def ring_joined(io, p):
    """The same, of keys and values in one buffer."""
    q, k, v = _read(io)
    _round(io, p, q, [buffers.joined([k, v])], lambda moving: buffers.apart(moving[0], [k, v]))


def _round(io, p, q, moving, keys_and_values):
    found = []
    for distance in range(p.world_size):
        k, v = keys_and_values(moving)
        if distance + 1 < p.world_size:
            moving = [_handed_on(p, x) for x in moving]
        mine = attend(q, k, v, p.first_position, _first_of(p, distance))
        found = combine(found[0], found[1], mine[0], mine[1]) if found else mine
    _write(io, p, found)


def ulysses(io, p):
    """Heads are exchanged for positions and back: each rank attends to the whole sequence with its heads (Jacobs et
    al. 2023, DeepSpeed Ulysses)."""
    _exchanged(io, p, lambda x, p: all_to_all(x))


def _exchanged(io, p, way):
    """The same, by a way of exchanging."""
    _check_heads(p)
    q, k, v = _to_heads(p, way, _read(io))
    out, lse = attend(q, k, v, 0, 0)
    _write(io, p, _to_positions(p, way, [cast(out, p.dtype), lse]))


def _read(io):
    return [io.read(name) for name in ("q", "k", "v")]


def _attend(io, p, q, k, v):
    _write(io, p, attend(q, k, v, p.first_position, 0))


def _write(io, p, found):
    io.write("out", cast(found[0], p.dtype))
    io.write("lse", found[1])


def _first_of(p, distance):
    """The first position of the rank so far before each, in a ring."""
    return [p.first_position[(r - distance) % p.world_size] for r in range(p.world_size)]


def _handed_on(p, x):
    """From each rank to the next."""
    return collective_permute(x, [(r, (r + 1) % p.world_size) for r in range(p.world_size)])


def _whole(p, by_rank, parts):
    """Parts of the whole sequence, of pieces that stand by rank."""
    heads, positions, width = p.shard_shape
    stacked = reshape(by_rank, (p.world_size, parts, heads, positions, width))
    whole = reshape(permute_dims(stacked, (1, 2, 0, 3, 4)), (parts, heads, p.sequence, width))
    return [reshape(x, (heads, p.sequence, width)) for x in split(whole, parts)]


def _check_heads(p):
    if p.heads % p.world_size:
        not_applicable("the ranks do not divide the heads")


def _to_heads(p, way, values):
    """Values (heads, positions, ..) of a piece: for each those of my heads, of all positions. Those of one dtype go
    in one exchange."""
    n, positions = p.world_size, p.shard_shape[1]
    heads = p.heads // n
    alike, others = _of_one_dtype(values)
    widths = [flatten(x).shape[0] // (p.heads * positions) for x in alike]
    rows = concat(
        [reshape(x, (n, heads, positions, width)) for x, width in zip(alike, widths, strict=True)], 3
    )
    came = reshape(permute_dims(way(rows, p), (1, 0, 2, 3)), (heads, p.sequence, sum(widths)))
    found = [
        reshape(x, _shape(heads, p.sequence, y)) for x, y in zip(split(came, widths, 2), alike, strict=True)
    ]
    return found + (_to_heads(p, way, others) if others else [])


def _to_positions(p, way, values):
    """The way back: for each the values of all heads, of my positions."""
    n, positions = p.world_size, p.shard_shape[1]
    heads = p.heads // n
    alike, others = _of_one_dtype(values)
    widths = [flatten(x).shape[0] // (heads * p.sequence) for x in alike]
    rows = concat(
        [reshape(x, (heads, n, positions, width)) for x, width in zip(alike, widths, strict=True)], 3
    )
    came = reshape(way(permute_dims(rows, (1, 0, 2, 3)), p), (p.heads, positions, sum(widths)))
    found = [
        reshape(x, _shape(p.heads, positions, y)) for x, y in zip(split(came, widths, 2), alike, strict=True)
    ]
    return found + (_to_positions(p, way, others) if others else [])


def _of_one_dtype(values):
    """The values of the first one's dtype, and the others: an lse has 32 bits at least, and stands last."""
    alike = [x for x in values if x.dtype == values[0].dtype]
    return alike, values[len(alike) :]


def _shape(heads, positions, x):
    return (heads, positions) if len(x.shape) == 2 else (heads, positions, x.shape[2])


# ------------------------------------------------------------------------------------------------ backward
def gathered_and_scattered(io, p):
    """Keys and values are gathered; their gradients are summed over the ranks and handed out, each by a call."""
    given = _read_backward(io)
    whole = [all_gather(x, 1) for x in given[1:3]]
    d_q, d_k, d_v = attend_backward(
        given[0], whole[0], whole[1], given[3], given[4], given[5], p.first_position, 0
    )
    d_k, d_v = [reduce_scatter(cast(x, p.dtype), 1) for x in (d_k, d_v)]
    _write_gradients(io, p, [d_q, d_k, d_v])


def joined_and_scattered(io, p):
    """The same, of keys and values in one buffer, and of their gradients."""
    _joined_and_scattered(io, p, lambda x, p: all_gather(x), lambda x, p: flatten(reduce_scatter(x)))


def _gathered_backward(io, p, way):
    """One buffer each, gathered by a way of gathering."""
    _joined_and_scattered(io, p, way, lambda x, p: flatten(reduce_scatter(x)))


def _scattered_backward(io, p, way):
    """One buffer each, summed and handed out by a way of scattering."""
    _joined_and_scattered(io, p, lambda x, p: all_gather(x), way)


def _joined_and_scattered(io, p, gather, scatter):
    q, k, v, out, lse, d_out = _read_backward(io)
    all_k, all_v = _whole(p, gather(buffers.joined([k, v]), p), 2)
    d_q, d_k, d_v = attend_backward(q, all_k, all_v, out, lse, d_out, p.first_position, 0)
    heads, positions, width = p.shard_shape
    pieces = [reshape(cast(x, p.dtype), (1, heads, p.world_size, positions, width)) for x in (d_k, d_v)]
    by_rank = reshape(permute_dims(concat(pieces), (2, 0, 1, 3, 4)), (p.world_size, -1))
    gradients = [d_q]
    gradients += buffers.apart(scatter(by_rank, p), [k, v])
    _write_gradients(io, p, gradients)


def ring_of_gradients(io, p):
    """Keys and values go round the ring, and their gradients with them, one step behind; a last step brings these
    home (Liu et al. 2023)."""
    q, k, v, out, lse, d_out = _read_backward(io)
    gradients, d_q = [], []
    for distance in range(p.world_size):
        following = [_handed_on(p, x) for x in (k, v)] if distance + 1 < p.world_size else []
        first = _first_of(p, distance)
        mine = attend_backward(q, k, v, out, lse, d_out, p.first_position, first)
        d_q = [add(d_q[0], mine[0])] if d_q else [mine[0]]
        here = [add(x, y) for x, y in zip(gradients, mine[1:], strict=True)] if gradients else mine[1:]
        gradients = [_handed_on(p, x) for x in here]
        if following:
            k, v = following
    _write_gradients(io, p, d_q + gradients)


def ulysses_backward(io, p):
    """Heads are exchanged for positions and back (Jacobs et al. 2023)."""
    _exchanged_backward(io, p, lambda x, p: all_to_all(x))


def _exchanged_backward(io, p, way):
    """The same, by a way of exchanging."""
    _check_heads(p)
    q, k, v, out, lse, d_out = _read_backward(io)
    q, k, v, out, d_out, lse = _to_heads(p, way, [q, k, v, out, d_out, lse])
    gradients = [cast(x, p.dtype) for x in attend_backward(q, k, v, out, lse, d_out, 0, 0)]
    _write_gradients(io, p, _to_positions(p, way, gradients))


def _read_backward(io):
    return [io.read(name) for name in ("q", "k", "v", "out", "lse", "d_out")]


def _write_gradients(io, p, gradients):
    for name, x in zip(("d_q", "d_k", "d_v"), gradients, strict=True):
        io.write(name, cast(x, p.dtype))


BACKWARD = Library(
    developer=("gathered_and_scattered",),
    hand_bundled="joined_and_scattered",
    others=("ring_of_gradients", "ulysses_backward"),
    ways=(
        (gathers, _gathered_backward),
        (scatters, _scattered_backward),
        (exchanges, _exchanged_backward),
    ),
)
LIBRARY = Library(
    developer=("gathered", "ring"),
    hand_bundled="joined",
    others=("ring_joined", "ulysses"),
    ways=((gathers, _gathered), (exchanges, _exchanged)),
)
