"""Ways of exchanging equal parts between all ranks: f(x, p) takes parts by destination on the first axis, and gives
those that came, by source, in the same shape. Read, never executed."""

from overlayccl_core.program.language import (
    all_to_all,
    collective_permute,
    concat,
    index_select,
    permute_dims,
    reshape,
    slice_axis,
)
from overlayccl_core.strategies.ways import buffers


def native(x, p):
    """The library's own all_to_all."""
    return all_to_all(x)


def permute_ring(x, p):
    """N - 1 rotations: at distance d every rank sends to the rank d places on."""
    buffers.from_everybody(p)
    n = p.world_size
    parts = reshape(x, (n, -1))

    def rotated(d):
        part = slice_axis(parts, 0, [(r + d) % n for r in range(n)], 1)
        return collective_permute(part, [(r, (r + d) % n) for r in range(n)]) if d else part

    came = concat([rotated(d) for d in range(n)])
    by_source = index_select(came, [[(r - source) % n for source in range(n)] for r in range(n)])
    return reshape(by_source, x.shape)


def two_step_hierarchical(x, p):
    """Within a node, bring parts to the rank with their destination's place; then exchange across nodes."""
    within, across = buffers.tiers(p)
    by_destination = reshape(x, (p.world_size // p.ranks_per_node, p.ranks_per_node, -1))
    of_my_place = all_to_all(permute_dims(by_destination, (1, 0, 2)), 0, within)
    return reshape(all_to_all(permute_dims(of_my_place, (1, 0, 2)), 0, across), x.shape)
