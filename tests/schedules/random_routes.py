"""Programs of random routes: each chunk is added up along a random tree, and handed out along another."""

from random import Random
from typing import Any

from overlayccl_core.program.chunk_graph import Chunk, added, given, laid, moved
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.recorder import IO, Value
from overlayccl_core.program.tracing import trace_function


def random_sum(problem: Problem, chunks: int, random: Random) -> Program:
    """An all_reduce of so many chunks."""
    ranks = range(problem.ranks)
    ((port, spec),) = problem.inputs.items()
    size = spec.size // chunks

    def traced(io: IO, _p: Any) -> None:
        x = io.read(str(port[0]), 0).node
        columns = [_column([given(rank, x, c * size) for rank in ranks], random) for c in range(chunks)]
        node = laid(size, [[column[rank] for column in columns] for rank in ranks])
        io.write("result", 0, Value(node, (spec.size,)))

    return trace_function(traced, problem)


def _column(parts: list[Chunk], random: Random) -> list[Chunk]:
    """The sum of one chunk of each rank, on each rank."""
    ranks = [part.rank for part in parts]
    while len(parts) > 1:
        random.shuffle(parts)
        together = [parts.pop() for _ in range(min(len(parts), random.choice((2, 2, 3))))]
        at = random.choice(together).rank
        parts.append(added([moved(part, at) for part in together]))
    have = {parts[0].rank: parts[0]}
    for rank in random.sample(ranks, len(ranks)):
        have.setdefault(rank, moved(random.choice(list(have.values())), rank))
    return [have[rank] for rank in ranks]
