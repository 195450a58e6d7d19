"""Known ways of making the calls of a captured step. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_reduce,
    all_to_all,
    concat,
    flatten,
    not_applicable,
    reduce_scatter,
    reshape,
    scale,
    split,
)
from overlayccl_core.strategies.ways import buffers, chunked_exchanges, exchanges, gathers, scatters, sums

SUM = 0  # an all_reduce; numbers as in problems/captured.py
MEAN = 1
GATHER = 2
SCATTER_SUM = 3
SCATTER_MEAN = 4
EXCHANGE = 5


def as_written(io, p):
    """The calls of the script, one by one, in its order."""
    for i, kind in enumerate(p.kinds):
        io.write("result", i, _call(p, kind, io.read("given", i)))


def in_flight_together(io, p):
    """The same calls; those that do not wait for each other are in flight together."""
    for calls in _levels(p):
        results = [_call(p, p.kinds[i], io.read("given", i)) for i in calls]
        for i, result in zip(calls, results, strict=True):
            io.write("result", i, result)


def merged(io, p):
    """Calls of one kind that do not wait for each other in one buffer."""
    _by(io, p, buffers.reduced, _gathered, scatters.reduce_scattered, exchanges.native)


def _sums(io, p, way):
    """Merged, the all_reduces by another way."""
    _needs(p, [SUM, MEAN])
    _by(io, p, way, _gathered, scatters.reduce_scattered, exchanges.native)


def _gathers(io, p, way):
    """Merged, the all_gathers by another way."""
    _needs(p, [GATHER])
    _by(io, p, buffers.reduced, way, scatters.reduce_scattered, exchanges.native)


def _scatters(io, p, way):
    """Merged, the reduce_scatters by another way."""
    _needs(p, [SCATTER_SUM, SCATTER_MEAN])
    _by(io, p, buffers.reduced, _gathered, way, exchanges.native)


def _exchanges(io, p, way):
    """Merged, the all_to_alls by another way."""
    _needs(p, [EXCHANGE])
    _by(io, p, buffers.reduced, _gathered, scatters.reduce_scattered, way)


def _needs(p, kinds):
    """A way of something that no call does is no other way."""
    if not [kind for kind in p.kinds if kind in kinds]:
        not_applicable("no call of this kind")


def _gathered(x, p):
    """The library's own all_gather."""
    return all_gather(reshape(x, (1, -1)))


def _by(io, p, summed, gathered, scattered, exchanged):
    """Level by level, the calls of each kind in one buffer."""
    for calls in _levels(p):
        given = [io.read("given", i) for i in calls]
        results = []
        for kind in [SUM, MEAN, GATHER, SCATTER_SUM, SCATTER_MEAN, EXCHANGE]:
            of_kind = [i for i in calls if p.kinds[i] == kind]
            values = [x for i, x in zip(calls, given, strict=True) if p.kinds[i] == kind]
            if values:
                done = _together(p, kind, values, summed, gathered, scattered, exchanged)
                results += zip(of_kind, done, strict=True)
        for i, result in results:
            io.write("result", i, result)


def _levels(p):
    """The calls that wait for 0, 1, 2... others, one after another."""
    deepest = max(p.depths)
    return [[i for i, depth in enumerate(p.depths) if depth == level] for level in range(deepest + 1)]


def _call(p, kind, x):
    """One call as the script makes it."""
    if kind == GATHER:
        return all_gather(x)
    if kind == EXCHANGE:
        return all_to_all(x)
    total = all_reduce(x, "sum") if kind in [SUM, MEAN] else reduce_scatter(x)
    return scale(total, 1, p.world_size) if kind in [MEAN, SCATTER_MEAN] else total


def _together(p, kind, values, summed, gathered, scattered, exchanged):
    """Calls of one kind in one buffer, by a way."""
    n = p.world_size
    if kind in [SUM, MEAN]:
        totals = summed(values, p)
        return [scale(x, 1, n) for x in totals] if kind == MEAN else totals
    sizes = [x.shape[0] for x in values]
    if kind == GATHER:
        parts = split(reshape(gathered(buffers.joined(values), p), (n, -1)), sizes, 1)
        return [flatten(part) for part in parts]
    each = [size // n for size in sizes]
    rows = concat([reshape(x, (n, -1)) for x in values], 1)
    if kind == EXCHANGE:
        return [flatten(part) for part in split(exchanged(rows, p), each, 1)]
    totals = split(scattered(rows, p), each)
    return [scale(x, 1, n) for x in totals] if kind == SCATTER_MEAN else totals


LIBRARY = Library(
    developer="as_written",
    single_graph="in_flight_together",
    hand_bundled="merged",
    ways=(
        (sums, _sums),
        (gathers, _gathers),
        (scatters, _scatters),
        (exchanges, _exchanges),
        (chunked_exchanges, _exchanges),
    ),
)
