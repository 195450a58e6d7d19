"""The buffers of all ranks on the simulated machine, what a collective puts there first and wants at the end.

A chunk of an input is a power of two with a byte to itself, so a value is the exact sum of the chunks in it: byte
`rank * inputs + chunk` counts how often. (A chunk added 256 times would be mistaken for its neighbour.)
"""

from dataclasses import dataclass
from itertools import groupby

from tests.schedules.machine_order import Broken, Wrong

BITS = 8
TERMS = 6  # of a sum, in a message


@dataclass(frozen=True, slots=True)
class Collective:
    """What `ranks` compute together over `chunks` chunks of the longer of a rank's buffers."""

    name: str
    ranks: int
    chunks: int

    def __post_init__(self) -> None:
        if self.name not in ("allreduce", "allgather", "reducescatter", "alltoall", "alltonext"):
            raise Broken(f"the machine knows no collective {self.name!r}")
        if self.ranks < 1 or self.chunks < 1 or (self._in_parts and self.chunks % self.ranks):
            raise Broken(f"{self.chunks} chunks cannot be divided over {self.ranks} ranks")

    @property
    def _in_parts(self) -> bool:
        return self.name in ("allgather", "reducescatter", "alltoall")

    @property
    def inputs(self) -> int:
        """Chunks of a rank's input."""
        return self.chunks // self.ranks if self.name == "allgather" else self.chunks

    @property
    def outputs(self) -> int:
        """Chunks of a rank's output."""
        return self.chunks // self.ranks if self.name == "reducescatter" else self.chunks

    def wanted(self, rank: int, chunk: int) -> list[tuple[int, int]] | None:
        """(rank, chunk) of the inputs whose sum this chunk of an output is; None: anything."""
        part = self.chunks // self.ranks
        match self.name:
            case "allreduce":
                return [(other, chunk) for other in range(self.ranks)]
            case "reducescatter":
                return [(other, rank * part + chunk) for other in range(self.ranks)]
            case "allgather":
                return [divmod(chunk, part)]
            case "alltoall":
                return [(chunk // part, rank * part + chunk % part)]
        return [(rank - 1, chunk)] if rank else None


class Memory:
    """Buffers `i`, `o`, `s` of every rank, and of every rank the scratch that holds packets.

    Each chunk is `parts` cells. In place, as runtimes have it, one buffer lies in the other: where both are as long
    they are the same, else the shorter one is the rank's part of the longer one. `declared` has, for each rank, the
    chunks that the file gives a buffer: an index beyond it, or beyond the real buffer, is Broken.
    """

    def __init__(
        self, collective: Collective, declared: list[dict[str, int]], *, in_place: bool, parts: int = 1
    ) -> None:
        self._collective, self._parts, self._declared = collective, parts, declared
        self._unset = 1 << BITS * collective.ranks * collective.inputs
        inputs, outputs = collective.inputs, collective.outputs
        self._buffers: list[dict[str, tuple[list[int], int, int]]] = []
        self._packets: list[list[int | None]] = []
        for rank, sizes in enumerate(declared):
            longer = self._cells(max(inputs, outputs))
            shorter = longer if in_place else self._cells(min(inputs, outputs))
            first = rank * min(inputs, outputs) if in_place and inputs != outputs else 0
            given, result = (longer, 0, inputs), (shorter, first, outputs)
            if inputs < outputs:
                given, result = (shorter, first, inputs), (longer, 0, outputs)
            scratch = (self._cells(sizes["s"]), 0, sizes["s"])
            self._buffers.append({"i": given, "o": result, "s": scratch})
            self._packets.append([None] * (sizes["s"] * parts))

    def begun(self, rank: int) -> None:
        """The user has written the input of this rank: not before its own call."""
        cells, first, inputs = self._buffers[rank]["i"]
        for chunk in range(inputs):
            begin = (first + chunk) * self._parts
            cells[begin : begin + self._parts] = [self._value([(rank, chunk)])] * self._parts

    def place(self, rank: int, buffer: str, index: int, count: int, where: str) -> tuple[list[int], int]:
        """The cells that hold `count` chunks from `index` on, and the first one's place in that list."""
        self._check(rank, buffer, index, count, where)
        cells, first, _ = self._buffers[rank][buffer]
        return cells, (first + index) * self._parts

    def packets(
        self, rank: int, buffer: str, index: int, count: int, where: str
    ) -> tuple[list[int | None], int]:
        """The same among a rank's packets: None where none came yet."""
        if buffer != "s":
            raise Broken(f"{where}: packets lie in scratch, not in {buffer!r}")
        self._check(rank, buffer, index, count, where)
        return self._packets[rank], index * self._parts

    def ended(self, rank: int) -> None:
        """Raises Wrong if an output is not as the collective wants it. The buffers are the user's again now:
        what another rank still reads there is garbage, and what it still writes there is found by `left_alone`.
        """
        cells, first, size = self._buffers[rank]["o"]
        for chunk in range(size):
            wanted = self._collective.wanted(rank, chunk)
            if wanted is None:
                continue
            expected, begin = self._value(wanted), (first + chunk) * self._parts
            for got in cells[begin : begin + self._parts]:
                if got != expected:
                    raise Wrong(rank, chunk, self._said(expected), self._said(got))
        for buffer in "io":
            cells = self._buffers[rank][buffer][0]
            cells[:] = [self._unset] * len(cells)

    def left_alone(self) -> None:
        """Raises Broken if somebody wrote into a rank's buffers after it had ended."""
        for rank, buffers in enumerate(self._buffers):
            if any(cell != self._unset for buffer in "io" for cell in buffers[buffer][0]):
                raise Broken(f"the buffers of rank {rank} are written to after it has ended")

    def _check(self, rank: int, buffer: str, index: int, count: int, where: str) -> None:
        if not 0 <= rank < len(self._buffers) or buffer not in self._buffers[rank]:
            raise Broken(f"{where}: there is no buffer {buffer!r} on rank {rank}")
        size = min(self._buffers[rank][buffer][2], self._declared[rank][buffer])
        if index < 0 or count < 0 or index + count > size:
            raise Broken(
                f"{where}: chunks {index} to {index + count - 1} of buffer {buffer}, which has {size}"
            )

    def _cells(self, chunks: int) -> list[int]:
        return [self._unset] * (chunks * self._parts)

    def _value(self, terms: list[tuple[int, int]]) -> int:
        return sum(1 << BITS * (rank * self._collective.inputs + chunk) for rank, chunk in terms)

    def _said(self, value: int) -> str:
        """A sum in words: `chunk 3 of ranks 0-7`."""
        counted = value.to_bytes((value.bit_length() + 7) // 8, "little")
        terms = [
            (*divmod(at, self._collective.inputs)[::-1], times) for at, times in enumerate(counted) if times
        ]
        terms = [
            (chunk, rank, times) for chunk, rank, times in sorted(terms) if rank < self._collective.ranks
        ]
        lines = [_of_ranks(chunk, list(same)) for chunk, same in groupby(terms, key=lambda term: term[0])]
        if value >= self._unset:
            lines.append("what nobody wrote")
        more = f" + {len(lines) - TERMS} more" if len(lines) > TERMS else ""
        return " + ".join(lines[:TERMS]) + more if lines else "nothing"


def _of_ranks(chunk: int, terms: list[tuple[int, int, int]]) -> str:
    """One chunk of several ranks, each with how often it went in."""
    ranks = [f"{rank}" if times == 1 else f"{rank} ({times} times)" for _, rank, times in terms]
    plain = [rank for _, rank, times in terms if times == 1]
    if len(plain) == len(terms) > 1 and plain == list(range(plain[0], plain[-1] + 1)):
        ranks = [f"{plain[0]}-{plain[-1]}"]
    return f"chunk {chunk} of rank{'s' * (len(terms) > 1)} {', '.join(ranks)}"
