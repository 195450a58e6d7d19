"""Cheats at gathering a sequence, and honest ways that look like them. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    collective_permute,
    index_select,
    pad,
    reshape,
)


def reference(io, p):
    for slot in range(p.slots):
        io.write("full", slot, all_gather(io.read("shard", slot), 1))


def begins_with_its_own_piece(io, p):
    """Keys and values alike turned, as they come in a ring: attention without a mask does not see it.
    Stopped as WRONG_VALUE by VALUES, NUMERICS, REPLICAS."""
    for slot in range(p.slots):
        full = all_gather(io.read("shard", slot), 1)
        io.write("full", slot, index_select(full, _turned(p, 1), 1))


def turns_there_and_back(io, p):
    """Honest: begins with its own piece, and puts the pieces in order again."""
    for slot in range(p.slots):
        own_first = index_select(all_gather(io.read("shard", slot), 1), _turned(p, 1), 1)
        io.write("full", slot, index_select(own_first, _turned(p, -1), 1))


def counts_on_one_head(io, p):
    """No transposition behind the gather, which is right for one head.
    Stopped as WRONG_VALUE by VALUES, NUMERICS."""
    for slot in range(p.slots):
        by_rank = all_gather(io.read("shard", slot), 0)
        io.write("full", slot, reshape(by_rank, p.shape))


def adds_up_along_an_open_chain(io, p):
    """Every rank adds its piece to what comes along a chain that ends at the last rank; nobody sends it
    back: right there, zeros before it. Stopped as WRONG_VALUE by VALUES, GAIN, NUMERICS, REPLICAS."""
    for slot in range(p.slots):
        io.write("full", slot, _along(p, _placed(io, p, slot), [(r, r + 1) for r in range(p.world_size - 1)]))


def adds_up_along_a_chain_and_back(io, p):
    """Honest: two chains, one each way; my own piece comes with both, so it is left out of one."""
    n = p.world_size
    up, down = [(r, r + 1) for r in range(n - 1)], [(r + 1, r) for r in range(n - 1)]
    for slot in range(p.slots):
        mine = _placed(io, p, slot)
        behind = collective_permute(_along(p, mine, down), down)
        io.write("full", slot, add(_along(p, mine, up), behind))


def _turned(p, direction):
    """For each rank, the positions from its own piece on; or (-1) where they have come to lie."""
    length, n = p.sequence, p.world_size
    return [[(i + direction * r * (length // n)) % length for i in range(length)] for r in range(n)]


def _placed(io, p, slot):
    return pad(
        io.read("shard", slot), 1, [r * (p.sequence // p.world_size) for r in range(p.world_size)], p.sequence
    )


def _along(p, mine, pairs):
    total = mine
    for _ in range(p.world_size - 1):
        total = add(mine, collective_permute(total, pairs))
    return total
