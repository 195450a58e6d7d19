"""Known ways of exchanging rows of which every pair of ranks has another number. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_to_all,
    collective_permute,
    concat,
    leading,
    not_applicable,
    pad,
    permute_dims,
    reduce_scatter,
    reduce_sum,
    reshape,
    scale,
    slice_axis,
    split,
)


def native(io, p):
    """The library's own all_to_all, on rows for each rank that are padded to the longest."""
    _write(io, p, _parts(p, all_to_all(_padded(io, p))))


def gather_reduce_scatter(io, p):
    """Gather everything padded, order it by destination, let a reduce_scatter hand it out: N equal copies summed,
    divided by N. What is left where a library has no all_to_all and no rank can take its own part of a gather."""
    n = p.world_size
    by_source = reshape(all_gather(_padded(io, p)), (n, n, p.chunk, p.width))
    by_destination = reshape(permute_dims(by_source, (1, 0, 2, 3)), (n * n * p.chunk, p.width))
    _write(io, p, _parts(p, scale(reduce_scatter(by_destination), 1, n)))


def gather_take(io, p):
    """Gather everything padded and keep what is addressed to me."""
    n = p.world_size
    by_source = reshape(all_gather(_padded(io, p)), (n, n, p.chunk * p.width))
    mine = slice_axis(by_source, 1, range(n), 1)
    _write(io, p, _parts(p, reshape(mine, (n * p.chunk, p.width))))


def packed_gather_take(io, p):
    """Gather the rows as they are packed, and keep those that are addressed to me."""
    n = p.world_size
    gathered = pad(all_gather(io.read("send")), 0, 0, n * p.send_rows + p.chunk)

    def of_source(s):
        return slice_axis(gathered, 0, [s * p.send_rows + p.starts[s * n + r] for r in range(n)], p.chunk)

    _write(io, p, [of_source(s) for s in range(n)])


def permute_ring(io, p):
    """N - 1 rotations: at distance d every rank sends to the rank d places on, padded to the longest of these."""
    n = p.world_size
    send = pad(io.read("send"), 0, 0, p.send_rows + p.chunk)
    placed = []
    for d in range(n):
        pairs = [(r, (r + d) % n) for r in range(n)]
        counts = [p.counts[r * n + to] for r, to in pairs]
        if max(counts) > 0:
            mine = slice_axis(send, 0, [p.starts[r * n + to] for r, to in pairs], max(counts))
            sent = leading(mine, 0, counts)
            placed += [
                _placed(p, collective_permute(sent, pairs) if d else sent, [(r - d) % n for r in range(n)])
            ]
    _join(io, p, placed)


def two_step_hierarchical(io, p):
    """Within a node, bring rows to the rank with their destination's place; then exchange across nodes."""
    if p.ranks_per_node == p.world_size:
        not_applicable("one tier")
    size, n = p.ranks_per_node, p.world_size
    within = [range(first, first + size) for first in range(0, n, size)]
    across = [range(place, n, size) for place in range(size)]
    chunks = reshape(_padded(io, p), (n // size, size, p.chunk, p.width))
    of_my_place = all_to_all(permute_dims(chunks, (1, 0, 2, 3)), 0, within)
    by_source = all_to_all(permute_dims(of_my_place, (1, 0, 2, 3)), 0, across)
    _write(io, p, _parts(p, reshape(by_source, (n * p.chunk, p.width))))


def _padded(io, p):
    """Rows for each rank, with zeros behind them up to the longest."""
    n = p.world_size
    send = pad(io.read("send"), 0, 0, p.send_rows + p.chunk)

    def for_rank(to):
        rows = slice_axis(send, 0, [p.starts[r * n + to] for r in range(n)], p.chunk)
        return leading(rows, 0, [p.counts[r * n + to] for r in range(n)])

    return concat([for_rank(to) for to in range(n)])


def _parts(p, x):
    """What came from each rank."""
    return split(x, p.world_size)


def _write(io, p, by_source):
    """Put the rows that came from each rank one behind the other."""
    n = p.world_size
    _join(io, p, [_placed(p, rows, [s] * n) for s, rows in enumerate(by_source)])


def _placed(p, rows, sources):
    """The rows that are meant, at their place among all that a rank receives; sources: of each rank."""
    n = p.world_size
    meant = leading(rows, 0, [p.counts[s * n + r] for r, s in enumerate(sources)])
    return pad(meant, 0, [p.places[s * n + r] for r, s in enumerate(sources)], p.received_rows + p.chunk)


def _join(io, p, placed):
    stacked = concat([reshape(x, (1, p.received_rows + p.chunk, p.width)) for x in placed])
    io.write("received", slice_axis(reduce_sum(stacked, 0), 0, 0, p.received_rows))


LIBRARY = Library(
    developer=("native", "gather_reduce_scatter"),
    others=("gather_take", "packed_gather_take", "permute_ring", "two_step_hierarchical"),
)
