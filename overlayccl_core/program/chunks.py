"""Chunk programs: a collective as transfers of chunks, as in MSCCLang (Cowan et al., ASPLOS 2023).

    def two_steps(chunk, p):
        for rank in range(p.world_size):
            for source in range(p.world_size):
                part = chunk(source, "input", rank).copy(rank, "scratch", source)
                total = total.reduce(part) if source else part
            for destination in range(p.world_size):
                total.copy(destination, "output", rank)

It runs once, for all ranks. `chunk` gives a reference to chunks of a buffer of a rank. `copy` and `reduce` write
chunks and give a reference to them. A later write makes a reference stale, and its use an error: nobody reads the
chunks of another write by accident. `chunk_graph.py` turns all of it into permutes and sums.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program import effort
from overlayccl_core.program.chunk_graph import Chunk, added, given, laid, moved
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.recorder import Value, active

INPUT, OUTPUT, SCRATCH = "input", "output", "scratch"
MAX_CHUNKS = 1 << 16  # of one buffer of a rank
MAX_PARTS = 64  # of a transfer, in flight together
CHUNK = 8  # effort for one chunk of one operation

Place = tuple[str, int]
"""A line of a source: its file of ways (empty: the traced source), and its number."""

place: ContextVar[Place] = ContextVar("the line that calls", default=("", 0))
"""Set by the interpreter before it calls a word."""


@dataclass(slots=True, eq=False)
class _Written:
    """The content of one chunk of a buffer, and the write that put it there.

    Attributes:
        operation: Empty: it was given.
        over: The next write to this chunk.
    """

    content: Chunk
    operation: str = ""
    place: Place = ("", 0)
    over: "_Written | None" = None

    def __str__(self) -> str:
        """`by copy in line 7`."""
        file, line = self.place
        return (
            f"by {self.operation} in {file}{', ' * bool(file)}line {line}"
            if self.operation
            else "before the program ran"
        )


class Reference:
    """A reference to consecutive chunks of a rank's buffer, as they were when it was made."""

    __slots__ = ("_at", "_buffers", "_written")

    def __init__(self, buffers: "_Buffers", at: tuple[int, str, int], written: list[_Written]) -> None:
        self._buffers = buffers
        self._at = at
        self._written = written

    def copy(self, rank: int, buffer: str, index: int) -> "Reference":
        """Put these chunks into a rank's buffer, from `index` on, and refer to them there."""
        self._buffers.check(rank, buffer, index, len(self._written))
        return self._buffers.write((rank, buffer, index), self._moved_to(rank), "copy")

    def reduce(self, other: "Reference") -> "Reference":
        """Add other chunks, of any rank, to these; refer to the sums, which lie here."""
        if not isinstance(other, Reference) or other._buffers is not self._buffers:
            raise Rejected("reduce takes a reference to chunks of this program: c.reduce(chunk(...))")
        if len(other._written) != len(self._written):
            raise Rejected(
                f"reduce {len(self._written)} chunks by {len(other._written)}: refer to as many, chunk(..., count)"
            )
        terms = zip(self._contents(), other._moved_to(self._at[0]), strict=True)
        return self._buffers.write(self._at, [added(pair) for pair in terms], "reduce")

    def _moved_to(self, rank: int) -> list[Chunk]:
        """The chunks on a rank; they travel together, as one message."""
        contents = self._contents()
        level = 1 + max(chunk.level for chunk in contents)
        return [moved(chunk, rank, self._buffers.in_flight, level) for chunk in contents]

    def _contents(self) -> list[Chunk]:
        """Its contents; Rejected if it is stale."""
        rank, buffer, index = self._at
        for i, written in enumerate(self._written, index):
            if written.over:
                raise Rejected(
                    f"a stale reference: chunk {i} of rank {rank}'s {buffer} was written {written}, and written"
                    f" over {written.over}: use the reference before that, or refer to"
                    f" chunk({rank}, {buffer!r}, {i}) again"
                )
        return [written.content for written in self._written]


class _Buffers:
    """The buffers of all ranks while a chunk program runs."""

    def __init__(self, x: Node, ranks: int, extents: dict[str, int]) -> None:
        self.in_flight = 1
        self._x = x
        self._ranks = ranks
        self._extents = extents
        self._chunk_size = x.size // extents[INPUT]
        self._lying: dict[tuple[int, str, int], _Written] = {}

    def chunk(self, rank: int, buffer: str, index: int, count: int = 1) -> Reference:
        """Refer to `count` chunks of a rank's buffer, from `index` on."""
        self.check(rank, buffer, index, count)
        effort.spend(CHUNK * count)
        written = [self.lying((rank, buffer, i)) for i in range(index, index + count)]
        if None in written:
            raise Rejected(
                f"chunk {index + written.index(None)} of rank {rank}'s {buffer}: nothing has been written there:"
                " copy something to it first"
            )
        return Reference(self, (rank, buffer, index), written)  # type: ignore[arg-type]

    def check(self, rank: int, buffer: str, index: int, count: int) -> None:
        """Rejected unless these are chunks of a buffer."""
        if not all(isinstance(n, int) for n in (rank, index, count)):
            raise Rejected(f"rank, index and count must be integers (got {(rank, index, count)!r})")
        if not 0 <= rank < self._ranks:
            raise Rejected(f"rank {rank}: ranks must lie in 0..{self._ranks - 1}")
        if buffer not in self._extents:
            names = " or ".join(map(repr, self._extents))
            raise Rejected(f"buffer {buffer!r}: it must be {names}{_IN_PLACE if buffer == OUTPUT else ''}")
        extent = self._extents[buffer]
        if count < 1 or index < 0 or index + count > extent:
            raise Rejected(
                f"chunks {index}..{index + count - 1} of the {buffer}: they must lie in 0..{extent - 1}"
            )

    def lying(self, at: tuple[int, str, int]) -> _Written | None:
        """The last write to a chunk of a buffer; None: there was none."""
        rank, buffer, index = at
        if at not in self._lying and buffer == INPUT:
            content = given(rank, self._x, index * self._chunk_size)
            self._lying[at] = _Written(content)
        return self._lying.get(at)

    def write(self, at: tuple[int, str, int], contents: list[Chunk], operation: str) -> Reference:
        """Put contents into a buffer, and refer to them."""
        effort.spend(CHUNK * len(contents))
        line = place.get()
        written = [_Written(x, operation, line) for x in contents]
        rank, buffer, index = at
        for i, new in enumerate(written, index):
            if old := self._lying.get((rank, buffer, i)):
                old.over = old.over or new
            self._lying[rank, buffer, i] = new
        return Reference(self, at, written)

    def result(self) -> Node:
        """The node with the output (in place: the input) of each rank; zeros for chunks that nobody wrote."""
        buffer = OUTPUT if OUTPUT in self._extents else INPUT
        count = self._extents[buffer]
        effort.spend(CHUNK * self._ranks * count)
        lying = [[self.lying((rank, buffer, i)) for i in range(count)] for rank in range(self._ranks)]
        contents = [[one.content if one else None for one in row] for row in lying]
        return laid(self._chunk_size, contents, self._x.dtype)


_IN_PLACE = ": without results, chunked is in place, and gives the input"
_running: ContextVar[_Buffers] = ContextVar("buffers of the running chunk program")


def chunked(program: Callable[[Any, Any], object], x: Value, parts: int, results: int | None = None) -> Value:
    """Run program(chunk, p): x, in `parts` chunks, is the input of each rank. Gives the `results` chunks of the
    output, with zeros for those that it does not write. Without `results` it is in place: gives the final input."""
    for what, n in (("parts", parts), ("results", parts if results is None else results)):
        if not isinstance(n, int) or not 1 <= n <= MAX_CHUNKS:
            raise Rejected(f"chunked: {what} must be an integer in 1..{MAX_CHUNKS} (got {n!r})")
    if not callable(program):
        raise Rejected(f"chunked: the program must be a function (chunk, p) (got {program!r})")
    if x.shape != (x.node.size,) or x.node.size % parts:
        raise Rejected(
            f"chunked: {x.shape} in {parts} chunks: the value must be flat, and a multiple of them: flatten, pad"
        )
    recorder = active()
    output = {} if results is None else {OUTPUT: results}
    buffers = _Buffers(x.node, recorder.problem.ranks, {INPUT: parts, **output, SCRATCH: MAX_CHUNKS})
    token = _running.set(buffers)
    try:
        program(buffers.chunk, recorder.parameters)
    finally:
        _running.reset(token)
    node = buffers.result()
    return Value(node, (node.size,))


def parallelize(parts: int, fragment: Callable[[], Any]) -> Any:
    """Run fragment() of a chunk program: each of its transfers goes as `parts` calls in flight, with 1/parts of the
    message each."""
    buffers = _running.get(None)
    if buffers is None:
        raise Rejected("parallelize stands in a chunk program: chunked(program, x, parts) runs one")
    if not isinstance(parts, int) or not 1 <= parts * buffers.in_flight <= MAX_PARTS:
        raise Rejected(
            f"parallelize: parts must be an integer in 1..{MAX_PARTS}, also if nested (got {parts!r})"
        )
    if not callable(fragment):
        raise Rejected(f"parallelize: the fragment must be a function without arguments (got {fragment!r})")
    outside = buffers.in_flight
    buffers.in_flight = outside * parts
    try:
        return fragment()
    finally:
        buffers.in_flight = outside
