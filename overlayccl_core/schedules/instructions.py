"""Instructions of a schedule: what each rank does with its chunks, fused and aggregated.

Fused and aggregated as in MSCCLang (Cowan et al., ASPLOS 2023): a chunk that arrives and is sent on, or is one of
two terms of a sum, is handled as it arrives (rcs, rrc, rrcs, rrs); chunks that lie side by side and go the same way
go together. Each chunk is written once, so nothing that is still to be read is overwritten. The exception is a
buffer that is input and output at once, in place: there a write waits for the reads of the chunk that was given.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import TopologicalSorter

from overlayccl_core.program.chunk_graph import Chunk
from overlayccl_core.schedules.program_chunks import ProgramChunks

MAX_COUNT = 71  # MSCCL_MAX_COUNT - 1, msccl_struct.h of RCCL and of msccl-executor-nccl
Place = tuple[str, int]
"""Buffer (i, o, s), and index of a chunk in it."""
Twins = Sequence[Mapping[Place, Place]]
"""For each rank: chunk of the output -> the chunk of the input that is the same memory."""
LocalStep = tuple[str, Place, Place]
"""Operation, source, target."""
Message = tuple[int, int, int]
"""Number of a permute, source, destination."""


@dataclass(eq=False, slots=True)
class RankInstruction:
    """One or more steps of a rank, without a break.

    Attributes:
        steps: One after the other; only an instruction without a peer has several.
        count: Each is of so many chunks, from its places on.
        source, target: The instruction at the other end of the message that it takes, and of the one it sends.
        call: Number of the permute of the message it sends.
        after: Instructions of this rank that have ended before.
        depth, height: Instructions on the longest path up to this one, and on the longest from this one on.
    """

    rank: int
    steps: list[LocalStep]
    count: int = 1
    source: "RankInstruction | None" = field(default=None, repr=False)
    target: "RankInstruction | None" = field(default=None, repr=False)
    call: int = -1
    after: set["RankInstruction"] = field(default_factory=set, repr=False)
    depth: int = 0
    height: int = 0

    @property
    def before(self) -> set["RankInstruction"]:
        """All that it waits for, on all ranks."""
        return self.after | ({self.source} if self.source else set())

    @property
    def receives(self) -> int:
        """The rank whose message it takes, or -1."""
        return self.source.rank if self.source else -1

    @property
    def sends(self) -> int:
        """The rank that it sends to, or -1."""
        return self.target.rank if self.target else -1


class Fusing(StrEnum):
    """How much is sent on, and added, as it arrives."""

    MESSAGES = "messages"  # whole ones: none is cut in two for it
    CHUNKS = "chunks"  # whatever can be
    NOTHING = "nothing"


def instructions_of(chunks: ProgramChunks, twins: Twins, fusing: Fusing) -> list[RankInstruction]:
    """Return the instructions that make the results, aggregated.

    Args:
        twins: In place; without any, input and output are two buffers.

    Raises:
        graphlib.CycleError: In place, some write would come before the read of what it overwrites.
    """
    lowering = _Lowering(chunks, twins, fusing)
    for chunk in chunks.order:
        lowering.lower(chunk)
    lowering.place_results()
    lowering.send_together()
    lowering.wait_for_readers()
    _measure(lowering.made)
    return _aggregated(lowering.made)


def paths(instructions: Iterable[RankInstruction]) -> Iterator[list[RankInstruction]]:
    """Yield each message's way from its first rank to its last; what has no peer is a way of its own."""
    for one in instructions:
        if one.source is None:
            path = [one]
            while path[-1].target:
                path.append(path[-1].target)
            yield path


class _Lowering:
    """Chunks becoming instructions, operands first."""

    def __init__(self, chunks: ProgramChunks, twins: Twins, fusing: Fusing) -> None:
        self.made: list[RankInstruction] = []
        self._twins = twins
        self._call = chunks.call
        self._scratch = [itertools.count() for _ in twins]
        self._users: dict[Chunk, list[Chunk]] = {chunk: [] for chunk in chunks.order}
        self._results: dict[Chunk, list[int]] = defaultdict(list)
        for chunk in chunks.order:
            for below in chunk.below:
                self._users[below].append(chunk)
        for row in chunks.results:
            for i, chunk in enumerate(row):
                self._results[chunk].append(i)
        self._messages: dict[Message, list[Chunk]] = defaultdict(list)
        for chunk in chunks.order:
            if message := self._message(chunk):
                self._messages[message].append(chunk)
        self._arriving: dict[Chunk, Chunk] = {}  # a sum -> its term that is added as it arrives
        self._forwarded: dict[Chunk, Chunk] = {}  # a chunk that arrives -> its copy that is sent on at once
        if fusing is not Fusing.NOTHING:
            self._fuse(chunks.order, self._groups(fusing))
        self._home: dict[Chunk, Place] = {}  # where it lies when it is made
        self._maker: dict[Chunk, RankInstruction] = {}
        self._size = chunks.size

    # ------------------------------------------------------------------------------------ what is fused
    def _groups(self, fusing: Fusing) -> list[list[Chunk]]:
        """Chunks that are fused together or not at all."""
        messages = list(self._messages.values())
        return messages if fusing is Fusing.MESSAGES else [[chunk] for chunks in messages for chunk in chunks]

    def _fuse(self, order: Sequence[Chunk], groups: Sequence[list[Chunk]]) -> None:
        """Choose what is added, and what is sent on, as it arrives."""
        length: dict[Chunk, int] = {}  # of the longest way on
        sums: dict[Chunk, Chunk] = {}  # a term that may be added as it arrives -> the sum
        for chunk in reversed(order):
            length[chunk] = 1 + max((length[user] for user in self._users[chunk]), default=0)
            if len(chunk.terms) == 2:
                arriving = [x for x in chunk.terms if x.source and self._is_only_for(x, chunk)]
                if arriving:
                    sums[max(reversed(arriving), key=lambda x: x.level)] = chunk
        for group in groups:
            if all(chunk in sums for chunk in group):
                self._arriving.update({sums[chunk]: chunk for chunk in group})
        number = {chunk: i for i, group in enumerate(groups) for chunk in group}
        longest: dict[int, list[Chunk]] = {}
        for group in groups:
            came = {number.get(self._arriving.get(x, x)) for chunk in group for x in chunk.below}
            into = came.pop() if len(came) == 1 else None
            if into is not None and len(groups[into]) == len(group):
                rivals = (longest.get(into, group), group)
                longest[into] = max(rivals, key=lambda rival: max(map(length.__getitem__, rival)))
        for group in longest.values():
            self._forwarded.update({x: chunk for chunk in group for x in chunk.below})

    def _message(self, chunk: Chunk) -> Message | None:
        """The permute and the ends of a transfer."""
        return (self._call[chunk], chunk.source.rank, chunk.rank) if chunk.source else None

    def _is_only_for(self, chunk: Chunk, user: Chunk) -> bool:
        return self._users[chunk] == [user] and chunk not in self._results

    def _is_kept(self, chunk: Chunk) -> bool:
        """Whether a sum made as its term arrives is read again here."""
        forwarded = self._forwarded.get(chunk)
        return forwarded is None or not self._is_only_for(chunk, forwarded)

    # -------------------------------------------------------------------------------------- instructions
    def lower(self, chunk: Chunk) -> None:
        """Add the instructions that make a chunk; those of its operands are there."""
        if chunk.node is not None:
            self._home[chunk] = "i", chunk.offset // self._size
        elif chunk.source is None:
            self._lower_sum(chunk)
        elif self._users[chunk] and self._arriving.get(self._users[chunk][0]) is chunk:
            return  # the sum takes it
        else:
            place = self._home[chunk] = self._new_home(chunk)
            self._receive(chunk, chunk, "rcs" if chunk in self._forwarded else "r", place, place)

    def _lower_sum(self, chunk: Chunk) -> None:
        arriving = self._arriving.get(chunk)
        if arriving is not None:
            (other,) = (x for x in chunk.terms if x is not arriving)
            source = target = self._home[other]
            operation = "rrs"
            if self._is_kept(chunk):
                operation = "rrcs" if chunk in self._forwarded else "rrc"
                target = self._home[chunk] = self._new_home(chunk)
            self._receive(arriving, chunk, operation, source, target, other)
            return
        first = chunk.terms[0]
        is_accumulator = first.node is None and self._is_only_for(first, chunk) and chunk not in self._results
        self._home[chunk] = self._home[first] if is_accumulator else self._new_home(chunk)
        self._maker[chunk] = self._add(chunk.rank, self._sum_steps(chunk), chunk.terms)

    def _receive(
        self, moved: Chunk, chunk: Chunk, operation: str, source: Place, target: Place, *reads: Chunk
    ) -> None:
        """Add the end of a transfer, and its beginning unless that is the end of another."""
        assert moved.source is not None
        if self._forwarded.get(moved.source) is moved:
            sender = self._maker[moved.source]
        else:
            place = self._place_to_send_from(moved)
            sender = self._add(moved.source.rank, [("s", place, place)], [moved.source])
        self._maker[chunk] = receiver = self._add(moved.rank, [(operation, source, target)], reads)
        receiver.source, sender.target, sender.call = sender, receiver, self._call[moved]

    def _place_to_send_from(self, moved: Chunk) -> Place:
        """Its place; in the output, side by side with the other chunks of the message, if not all were given."""
        source, message = moved.source, self._message(moved)
        assert source is not None and message is not None
        if all(x.node is not None for chunk in self._messages[message] for x in chunk.below):
            return self._home[source]
        if source.node is not None and source in self._results and source not in self._maker:
            place = "o", self._results[source][0]
            copy = self._add(source.rank, [("cpy", self._home[source], place)], ())
            self._home[source], self._maker[source] = place, copy
        return self._home[source]

    def _add(self, rank: int, steps: list[LocalStep], reads: Iterable[Chunk]) -> RankInstruction:
        after = {self._maker[x] for x in reads if x in self._maker}
        self.made.append(RankInstruction(rank, steps, after=after))
        return self.made[-1]

    def _new_home(self, chunk: Chunk) -> Place:
        return ("o", self._results[chunk][0]) if chunk in self._results else self._new_scratch(chunk.rank)

    def _new_scratch(self, rank: int) -> Place:
        return "s", next(self._scratch[rank])

    def _sum_steps(self, chunk: Chunk) -> list[LocalStep]:
        """The steps that add up the terms, from the first to the last.

        Where the target is also a later term, in place, they are added up elsewhere, and copied.
        """
        home, (first, *others) = self._home[chunk], [self._home[x] for x in chunk.terms]
        total, is_twin = home, self._twins[chunk.rank].get(home) in others
        if is_twin:
            is_free = first[0] == "s" and self._is_only_for(chunk.terms[0], chunk)
            total = first if is_free else self._new_scratch(chunk.rank)
        return [
            *([("cpy", first, total)] if first != total else []),
            *(("re", cell, total) for cell in others),
            *([("cpy", total, home)] if is_twin else []),
        ]

    # ----------------------------------------------------------------------------------------- the results
    def place_results(self) -> None:
        """Copy to the output what lies elsewhere."""
        for chunk, places in self._results.items():
            for i in places:
                if (place := ("o", i)) != self._home[chunk]:
                    self._add(chunk.rank, [("cpy", self._home[chunk], place)], [chunk])

    def send_together(self) -> None:
        """Let the sends of one message wait for each other's chunks: they are one call."""
        sends: dict[Message, list[RankInstruction]] = defaultdict(list)
        for one in self.made:
            if one.steps[0][0] == "s":
                sends[one.call, one.rank, one.sends].append(one)
        for together in sends.values():
            after = {before for one in together for before in one.after}
            for one in together:
                one.after = set(after)

    def wait_for_readers(self) -> None:
        """In place, let a write of the output wait for all that read the same chunk of the input."""
        readers: dict[tuple[int, Place], set[RankInstruction]] = defaultdict(set)
        for one in self.made:
            for _, source, _ in one.steps:
                if source[0] == "i":
                    readers[one.rank, source].add(one)
        for one in self.made:
            for _, _, target in one.steps:
                twin = self._twins[one.rank].get(target)
                if twin is not None and one.steps[0][0] not in ("s", "rrs"):
                    one.after |= readers[one.rank, twin] - {one}


def _measure(instructions: Sequence[RankInstruction]) -> None:
    """Set depth and height."""
    order = list(TopologicalSorter({one: one.before for one in instructions}).static_order())
    for one in order:
        one.depth = 1 + max((other.depth for other in one.before), default=0)
    for one in reversed(order):
        one.height = max(one.height, 1)
        for other in one.before:
            other.height = max(other.height, one.height + 1)


def _aggregated(instructions: Sequence[RankInstruction]) -> list[RankInstruction]:
    """Ways that run side by side, each one chunk further than the last, become one of several chunks."""
    alike: dict[tuple[object, ...], list[tuple[list[int], list[RankInstruction]]]] = defaultdict(list)
    for path in paths(instructions):
        places = [place for one in path for _, *ends in one.steps for place in ends]
        look = tuple((one.rank, one.depth, one.call, *(step[0] for step in one.steps)) for one in path)
        alike[look, tuple(buffer for buffer, _ in places)].append(([i for _, i in places], path))
    whole: dict[RankInstruction, RankInstruction] = {}  # each -> what it is a part of
    for found in alike.values():
        run: list[RankInstruction] = []
        last: list[int] = []
        for offsets, path in sorted(found, key=_by_distances):
            if run and offsets == [i + 1 for i in last] and run[0].count < MAX_COUNT:
                for one, into in zip(path, run, strict=True):
                    into.count += 1
                    into.height = max(into.height, one.height)
            else:
                run = path
            whole.update(zip(path, run, strict=True))
            last = offsets
    for one, into in whole.items():
        into.after |= one.after
    merged = [one for one, into in whole.items() if one is into]
    for one in merged:
        one.after = {whole[other] for other in one.after}
    return merged


def _by_distances(item: tuple[list[int], list[RankInstruction]]) -> tuple[list[int], int]:
    """Sort what has equal distances between its places together, by the first place."""
    offsets, _ = item
    return [i - offsets[0] for i in offsets], offsets[0]
