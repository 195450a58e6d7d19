"""A Program as chunks: given, moved and added up, until each rank holds its output.

The opposite way of `program/chunk_graph.py`. All cuts that a Program makes are multiples of one width, the greatest
common divisor of them: that is its chunk.
"""

import math
from dataclasses import dataclass

from overlayccl_core.program.atoms import Blocks, block_cuts
from overlayccl_core.program.chunk_graph import Chunk, added, given, moved
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.program import Program

MAX_CHUNKS = 2**20  # of all values, on all ranks
WRITTEN = (Kind.INPUT, Kind.VIEW, Kind.SUM, Kind.COLLECTIVE_PERMUTE)
Row = list[Chunk | None]
"""The chunks of a value on one rank; None: zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramChunks:
    """The chunks of a Program of one input and one output.

    Attributes:
        size: Elements of a chunk.
        given: Chunks that a rank gives.
        results: For each rank the chunks of its output, in order.
        order: All chunks that the results are made from, and these, operands first.
        call: Of a moved chunk: the number of its permute, in order of issue.
    """

    size: int
    given: int
    results: tuple[tuple[Chunk, ...], ...]
    order: tuple[Chunk, ...]
    call: dict[Chunk, int]


def chunks_of(program: Program) -> ProgramChunks:
    """Return the chunks of a Program.

    Raises:
        Rejected: It does something that is no move and no sum, or a rank's output has zeros; with the mend.
    """
    for x in program.nodes:
        if x.kind not in WRITTEN:
            raise Rejected(_not_written(x))
    ((_, spec),) = program.problem.inputs.items()
    ((_, result),) = program.outputs.items()
    nodes = topological([result])
    widths = [cut.width for cut in block_cuts(nodes, (), {}).values() if isinstance(cut, Blocks)]
    size = math.gcd(spec.size, *widths)
    _check_number(sum(x.size for x in nodes) // size * program.problem.ranks, size)
    rows = _Rows(program, size)
    for x in nodes:
        rows.make(x)
    results = tuple(tuple(_results(rank, row)) for rank, row in enumerate(rows.of[result]))
    needed = {chunk for row in results for chunk in row}
    for chunk in reversed(rows.made):
        if chunk in needed:
            needed.update(chunk.below)
    order = tuple(chunk for chunk in rows.made if chunk in needed)
    return ProgramChunks(size=size, given=spec.size // size, results=results, order=order, call=rows.call)


def is_of_permutes(program: Program) -> bool:
    """Whether all its calls are permutes."""
    return all(x.kind is Kind.COLLECTIVE_PERMUTE for x in program.collectives)


class _Rows:
    """For each node the chunks on each rank."""

    def __init__(self, program: Program, size: int) -> None:
        self.of: dict[Node, list[Row]] = {}
        self.call: dict[Chunk, int] = {}
        self._made: dict[Chunk, None] = {}
        self._sums: dict[tuple[Chunk, ...], Chunk] = {}
        self._number = {x: i for i, x in enumerate(program.collectives)}
        self._ranks = range(program.problem.ranks)
        self._size = size

    @property
    def made(self) -> list[Chunk]:
        """All chunks, operands first."""
        return list(self._made)

    def make(self, x: Node) -> None:
        """Make those of a node; those of its operands are there."""
        rows = [self._row(x, rank) for rank in self._ranks]
        self._made.update(dict.fromkeys(chunk for row in rows for chunk in row if chunk))
        self.of[x] = rows

    def _row(self, x: Node, rank: int) -> Row:
        match x.kind:
            case Kind.INPUT:
                return [given(rank, x, first) for first in range(0, x.size, self._size)]
            case Kind.VIEW:
                return self._viewed(x, rank)
            case Kind.SUM:
                terms, each = self.of[x.operands[0]][rank], x.size // self._size
                return [self._sum(terms[i::each]) for i in range(each)]
            case _:
                return self._moved(x, rank)

    def _viewed(self, x: Node, rank: int) -> Row:
        below: Row = [chunk for y in x.operands for chunk in self.of[y][rank]]
        row: Row = []
        for _, source, length in zip(*(column.tolist() for column in x.map.row(rank)), strict=True):
            first, count = source // self._size, length // self._size
            row += [None] * count if source < 0 else below[first : first + count]
        return row

    def _sum(self, terms: Row) -> Chunk | None:
        """Equal sums are one."""
        there = tuple(chunk for chunk in terms if chunk is not None)
        if not there:
            return None
        if there not in self._sums:
            self._sums[there] = added(there)
        return self._sums[there]

    def _moved(self, x: Node, rank: int) -> Row:
        source = x.sources[rank]
        row: Row = [None] * (x.size // self._size)
        if source < 0:
            return row
        for i, chunk in enumerate(self.of[x.operands[0]][source]):
            if chunk is not None:
                copy = row[i] = moved(chunk, rank)
                if copy is not chunk:
                    self.call.setdefault(copy, self._number[x])
        return row


def _results(rank: int, row: Row) -> list[Chunk]:
    for i, chunk in enumerate(row):
        if chunk is None:
            raise Rejected(
                f"chunk {i} of the output of rank {rank} is zeros, which no step of a schedule makes"
            )
    return [chunk for chunk in row if chunk is not None]


def _check_number(chunks: int, size: int) -> None:
    if chunks > MAX_CHUNKS:
        raise Rejected(
            f"{chunks} chunks of {size} element{'s' * (size > 1)} (limit {MAX_CHUNKS}): cut at fewer places, for "
            "instance sizes that are multiples of the number of ranks"
        )


def _not_written(x: Node) -> str:
    match x.kind:
        case Kind.SCALE:
            return f"a value times {x.ratio}: a schedule moves and adds: scale what it gives (no avg)"
        case Kind.CAST:
            return f"a cast to {x.dtype.value}: a schedule moves and adds: cast before the call and after it"
        case Kind.ROWWISE:
            return f"{x}: a schedule moves and adds: write a Program without it"
        case _:
            return (
                f"{x}: a schedule has sends and receives only: take a way that is made of collective_permute"
            )
