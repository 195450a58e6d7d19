"""Known ways of handing activations to the next rank. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    collective_permute,
    concat,
    reshape,
    slice_axis,
)


def developer(io, p):
    """Each on its own."""
    n = p.world_size
    for m in range(p.microbatches):
        io.write("received", m, collective_permute(io.read("sent", m), [(r, (r + 1) % n) for r in range(n)]))


def bundled(io, p):
    """All in one message."""
    n = p.world_size
    mine = concat([reshape(io.read("sent", m), (1, -1)) for m in range(p.microbatches)], 0)
    theirs = collective_permute(mine, [(r, (r + 1) % n) for r in range(n)])
    for m in range(p.microbatches):
        io.write("received", m, reshape(slice_axis(theirs, 0, m, 1), (-1,)))


LIBRARY = Library(developer="developer", hand_bundled="bundled", others=())
