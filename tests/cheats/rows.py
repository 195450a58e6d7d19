"""Cheats at exchanging rows of which every pair of ranks has another number. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_to_all,
    collective_permute,
    concat,
    leading,
    pad,
    reduce_sum,
    reshape,
    scale,
    slice_axis,
    split,
)


def reference(io, p):
    _write(io, p, _exchanged(io, p), _arriving(p))


def counts_as_if_symmetric(io, p):
    """Takes as many rows from a rank as it sends to it. Stopped as WRONG_VALUE."""
    n = p.world_size
    kept = [[p.counts[r * n + s] for r in range(n)] for s in range(n)]
    _write(io, p, _exchanged(io, p), kept)


def drops_what_is_over_the_average(io, p):
    """The capacity of an expert: what exceeds it is dropped.
    Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    n = p.world_size
    capacity = sum(p.counts) // (n * n)
    kept = [[min(c, capacity) for c in counts] for counts in _arriving(p)]
    _write(io, p, _exchanged(io, p), kept)


def sends_the_rows_behind_too(io, p):
    """Where every rank has rows for the next one only: the whole buffer, with what lies behind them, taken
    for zeros. Stopped as WRONG_VALUE by INVALID_INPUTS."""
    io.write("received", _of_the_one_before(io, p))


def cuts_the_rows_behind(io, p):
    """Honest: the same, cut on arrival."""
    io.write("received", leading(_of_the_one_before(io, p), 0, _rows_of_the_one_before(p)))


def cuts_by_multiplication(io, p):
    """Takes the rows that are meant, and all of them times 0, which may be NaN.
    Stopped as GAIN by GAIN, NUMERICS."""
    theirs = _of_the_one_before(io, p)
    io.write("received", add(leading(theirs, 0, _rows_of_the_one_before(p)), scale(theirs, 0)))


def _of_the_one_before(io, p):
    n = p.world_size
    return collective_permute(io.read("send"), [(r, (r + 1) % n) for r in range(n)])


def _rows_of_the_one_before(p):
    n = p.world_size
    return [p.counts[(r - 1) % n * n + r] for r in range(n)]


def _arriving(p):
    """[from each rank][on each rank]: rows."""
    n = p.world_size
    return [[p.counts[s * n + r] for r in range(n)] for s in range(n)]


def _exchanged(io, p):
    n = p.world_size
    send = pad(io.read("send"), 0, 0, p.send_rows + p.chunk)
    chunks = []
    for to in range(n):
        rows = slice_axis(send, 0, [p.starts[r * n + to] for r in range(n)], p.chunk)
        chunks += [leading(rows, 0, [p.counts[r * n + to] for r in range(n)])]
    return split(all_to_all(concat(chunks)), n)


def _write(io, p, by_source, kept):
    n, total = p.world_size, p.received_rows + p.chunk
    placed = []
    for s in range(n):
        rows = leading(by_source[s], 0, kept[s])
        placed += [reshape(pad(rows, 0, [p.places[s * n + r] for r in range(n)], total), (1, total, p.width))]
    io.write("received", slice_axis(reduce_sum(concat(placed), 0), 0, 0, p.received_rows))
