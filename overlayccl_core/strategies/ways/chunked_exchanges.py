"""Ways of exchanging as in exchanges.py, by chunk programs. Read, never executed."""

from overlayccl_core.program.language import chunked, flatten, reshape
from overlayccl_core.strategies.ways import buffers


def two_step_in_chunks(x, p):
    """Within a node, chunks go to the rank with their destination's place; it sends those of a node together."""
    buffers.from_everybody(p)
    buffers.tiers(p)
    return reshape(chunked(_two_step, flatten(x), p.world_size, p.world_size), x.shape)


def _two_step(chunk, p):
    size, n = p.ranks_per_node, p.world_size
    for source in range(n):
        for destination in range(n):
            node, place = divmod(destination, size)
            sender = source // size * size + place
            chunk(source, "input", destination).copy(sender, "scratch", node * size + source % size)
    for sender in range(n):
        for node in range(n // size):
            together = chunk(sender, "scratch", node * size, size)
            together.copy(node * size + sender % size, "output", sender // size * size)
