"""Known ways of exchanging equal chunks between all ranks. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_to_all,
    collective_permute,
    concat,
    index_select,
    not_applicable,
    permute_dims,
    reduce_scatter,
    reshape,
    scale,
    slice_axis,
)


def native(io, p):
    """The library's own all_to_all."""
    io.write("received", all_to_all(io.read("send")))


def gather_slice(io, p):
    """Gather everything and keep the chunks that are addressed to me."""
    n = p.world_size
    by_source = reshape(all_gather(io.read("send")), (n, n, p.chunk * p.width))
    mine = slice_axis(by_source, 1, range(n), 1)
    io.write("received", reshape(mine, (n * p.chunk, p.width)))


def gather_reduce_scatter(io, p):
    """Gather everything, order it by destination, let a reduce_scatter hand it out: N equal copies summed,
    divided by N. What is left where a library has no all_to_all and no rank can take its own part of a gather."""
    n = p.world_size
    by_source = reshape(all_gather(io.read("send")), (n, n, p.chunk, p.width))
    by_destination = reshape(permute_dims(by_source, (1, 0, 2, 3)), (n * n * p.chunk, p.width))
    io.write("received", scale(reduce_scatter(by_destination), 1, n))


def permute_ring(io, p):
    """N - 1 rotations: at distance d every rank sends to the rank d places on."""
    n = p.world_size
    send = io.read("send")

    def rotated(d):
        chunk = slice_axis(send, 0, [(r + d) % n * p.chunk for r in range(n)], p.chunk)
        return collective_permute(chunk, [(r, (r + d) % n) for r in range(n)]) if d else chunk

    stacked = reshape(concat([rotated(d) for d in range(n)]), (n, p.chunk * p.width))
    by_source = index_select(stacked, [[(r - source) % n for source in range(n)] for r in range(n)])
    io.write("received", reshape(by_source, (n * p.chunk, p.width)))


def two_step_hierarchical(io, p):
    """Within a node, bring chunks to the rank with their destination's place; then exchange across nodes."""
    if p.ranks_per_node == p.world_size:
        not_applicable("one tier")
    size, n = p.ranks_per_node, p.world_size
    within = [range(first, first + size) for first in range(0, n, size)]
    across = [range(place, n, size) for place in range(size)]
    chunks = reshape(io.read("send"), (n // size, size, p.chunk, p.width))
    by_place = permute_dims(chunks, (1, 0, 2, 3))
    of_my_place = all_to_all(by_place, 0, within)
    by_node = permute_dims(of_my_place, (1, 0, 2, 3))
    by_source = all_to_all(by_node, 0, across)
    io.write("received", reshape(by_source, (n * p.chunk, p.width)))


LIBRARY = Library(
    developer=("native", "gather_slice"),
    others=("gather_reduce_scatter", "permute_ring", "two_step_hierarchical"),
)
