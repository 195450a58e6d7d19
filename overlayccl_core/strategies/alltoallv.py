"""Known ways of exchanging rows of which every pair of ranks has another number. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    collective_permute,
    concat,
    leading,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    split,
)
from overlayccl_core.strategies.ways import chunked_exchanges, exchanges, gathered_exchanges


def packed_gather_take(io, p):
    """Gather the rows as they are packed, and keep those that are addressed to me."""
    n = p.world_size
    gathered = pad(all_gather(io.read("send")), 0, 0, n * p.send_rows + p.chunk)

    def of_source(s):
        return slice_axis(gathered, 0, [s * p.send_rows + start for start in _row(p, p.starts, s)], p.chunk)

    _write(io, p, [of_source(s) for s in range(n)])


def packed_permute_ring(io, p):
    """N - 1 rotations, each padded to the longest of those that go as far."""
    n = p.world_size
    send = pad(io.read("send"), 0, 0, p.send_rows + p.chunk)
    placed = []
    for d in range(n):
        pairs = [(r, (r + d) % n) for r in range(n)]
        counts = _diagonal(p, p.counts, d)
        if max(counts) > 0:
            sent = leading(slice_axis(send, 0, _diagonal(p, p.starts, d), max(counts)), 0, counts)
            came = collective_permute(sent, pairs) if d else sent
            places = _diagonal(p, p.places, d)
            placed += [_placed(p, came, _from_source(counts, d), _from_source(places, d))]
    _join(io, p, placed)


def _exchanged(io, p, way):
    """Rows that are padded to the longest, by a way of exchanging equal parts."""
    _write(io, p, split(way(_padded(io, p), p), p.world_size))


def _padded(io, p):
    """Rows for each rank, with zeros behind them up to the longest."""
    n = p.world_size
    send = pad(io.read("send"), 0, 0, p.send_rows + p.chunk)

    def for_rank(to):
        rows = slice_axis(send, 0, p.starts[to::n], p.chunk)
        return leading(rows, 0, p.counts[to::n])

    return concat([for_rank(to) for to in range(n)])


def _write(io, p, by_source):
    """Put the rows that came from each rank one behind the other."""
    placed = [_placed(p, x, _row(p, p.counts, s), _row(p, p.places, s)) for s, x in enumerate(by_source)]
    _join(io, p, placed)


def _row(p, table, source):
    """What a table of (source, destination) says of one source, for each destination."""
    return table[source * p.world_size : (source + 1) * p.world_size]


def _diagonal(p, table, distance):
    """What it says, for each source, of the destination so many places on."""
    n = p.world_size
    return table[distance :: n + 1][: n - distance] + table[n * (n - distance) :: n + 1]


def _from_source(values, distance):
    """Values of each source as those of the destinations so many places on."""
    return values[len(values) - distance :] + values[: len(values) - distance]


def _placed(p, rows, counts, places):
    """The rows that are meant, at their place among all that a rank receives; both of each rank."""
    return pad(leading(rows, 0, counts), 0, places, p.received_rows + p.chunk)


def _join(io, p, placed):
    stacked = concat([reshape(x, (1, p.received_rows + p.chunk, p.width)) for x in placed])
    io.write("received", slice_axis(reduce_sum(stacked, 0), 0, 0, p.received_rows))


LIBRARY = Library(
    developer=("native", "gather_reduce_scatter"),
    others=("packed_gather_take", "packed_permute_ring"),
    ways=((exchanges, _exchanged), (gathered_exchanges, _exchanged), (chunked_exchanges, _exchanged)),
)
