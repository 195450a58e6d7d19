"""Known ways of exchanging equal chunks between all ranks. Read, never executed."""

from overlayccl_core.program.language import Library
from overlayccl_core.strategies.ways import chunked_exchanges, exchanges, gathered_exchanges


def _exchanged(io, p, way):
    """What is sent, by a way of exchanging."""
    io.write("received", way(io.read("send"), p))


LIBRARY = Library(
    developer=("native", "gather_slice"),
    ways=((exchanges, _exchanged), (gathered_exchanges, _exchanged), (chunked_exchanges, _exchanged)),
)
