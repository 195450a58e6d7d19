"""Cheats at handing a buffer to the next rank, and honest ways like them. Read as text, never executed."""

from overlayccl_core.program.language import add, collective_permute, concat, select, slice_axis


def reference(io, p):
    io.write("received", collective_permute(io.read("given"), _onward(p)))


def sends_to_the_rank_before(io, p):
    """Right for two ranks in a ring. Stopped as WRONG_VALUE by VALUES, NUMERICS."""
    n = p.world_size
    io.write("received", collective_permute(io.read("given"), [((r + 1) % n, r) for r in range(n)]))


def sends_within_nodes_alone(io, p):
    """Nothing crosses: right but on the first rank of a node.
    Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    within = [pair for pair in _onward(p) if pair[1] % p.ranks_per_node > 0]
    io.write("received", collective_permute(io.read("given"), within))


def gathers_the_pieces_in_another_order(io, p):
    """The second half before the first, on the first rank of a node. Stopped as WRONG_VALUE by VALUES, NUMERICS."""
    x = io.read("given")
    came = collective_permute(x, _onward(p))
    half = p.elements // 2
    turned = concat([slice_axis(came, 0, half, half), slice_axis(came, 0, 0, half)])
    first = [r % p.ranks_per_node == 0 for r in range(p.world_size)]
    io.write("received", add(select(turned, first), select(came, [not f for f in first])))


def adds_its_own_buffer(io, p):
    """What came, and its own to it. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS."""
    x = io.read("given")
    io.write("received", add(collective_permute(x, _onward(p)), x))


def sends_round(io, p):
    """Honest: the first rank gets the last one's buffer, and nobody reads it there."""
    n = p.world_size
    io.write("received", collective_permute(io.read("given"), [(r, (r + 1) % n) for r in range(n)]))


def adds_what_came_within_and_across(io, p):
    """Honest: one of the two is zeros on each rank."""
    x = io.read("given")
    within = [pair for pair in _onward(p) if pair[1] % p.ranks_per_node > 0]
    across = [pair for pair in _onward(p) if pair[1] % p.ranks_per_node == 0]
    io.write("received", add(collective_permute(x, within), collective_permute(x, across)))


def _onward(p):
    return [(r, r + 1) for r in range(p.world_size - 1)]
