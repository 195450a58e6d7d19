"""Thread blocks of a schedule: the place of an instruction, its order, and its waits.

As in MSCCLang (Cowan et al., ASPLOS 2023): a thread block has one peer to send to, one to receive from, and a
channel. Among instructions that can run, those on the longest path come first (depth + height). Both ends of a
connection see its messages in one order.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from overlayccl_core.schedules.instructions import RankInstruction, paths
from overlayccl_core.schedules.msccl import FEWEST_SLOTS

MAX_CHANNELS = 32  # MAXCHANNELS of NCCL 2.17 and RCCL, devcomm.h
Connection = tuple[int, int, int]
"""Source, destination, channel."""


@dataclass(eq=False, slots=True)
class ThreadBlock:
    """Instructions one after the other; a peer of -1: none."""

    rank: int
    number: int
    send: int
    receive: int
    channel: int
    instructions: list[RankInstruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBlocks:
    """Instructions in thread blocks.

    Attributes:
        blocks: For each rank, in order of their numbers.
        place: instruction -> its thread block, and how many come before it there.
        waits: instruction -> those of other thread blocks of its rank that it waits for, without those that these
            have waited for.
    """

    blocks: Sequence[Sequence[ThreadBlock]]
    place: Mapping[RankInstruction, tuple[ThreadBlock, int]]
    waits: Mapping[RankInstruction, Sequence[RankInstruction]]

    def runs(self) -> bool:
        """Whether it runs to its end with few messages on each connection, be it whole steps or single chunks."""
        return _runs(self, whole=True) and _runs(self, whole=False)


def placed(
    instructions: Sequence[RankInstruction], ranks: int, *, paired: bool, spread: int = 1
) -> PlacedBlocks | None:
    """Return the instructions in thread blocks; None if there is no way to do so in MAX_CHANNELS channels.

    Args:
        paired: Whether a thread block that sends to a peer also receives from that one.
        spread: Channels that messages share.
    """
    channels = _channels(instructions, spread)
    if channels is None:
        return None
    order = _ordered(instructions, channels)
    if order is None:
        return None
    blocks = _Blocks(instructions, channels, ranks, paired)
    for one in order:
        blocks.add(one)
    return PlacedBlocks(blocks=blocks.of_rank, place=blocks.place, waits=blocks.waits)


def _urgency(one: RankInstruction) -> tuple[int, int]:
    return -(one.depth + one.height), one.depth


# ----------------------------------------------------------------------------------------------- channels
def _channels(instructions: Sequence[RankInstruction], spread: int) -> dict[RankInstruction, int] | None:
    """A channel for each message in which it meets no other: of the first ones, the one with the fewest messages.

    Two messages meet if a rank would forward from one peer to two, or to one from two; or if they are of calls that
    are in flight together.
    """
    onward: dict[tuple[int, str, int, int], int] = {}  # rank, side, peer, channel -> peer on the other side
    busy: dict[tuple[Connection, int], int] = {}
    load: Counter[Connection] = Counter()  # messages
    channels: dict[RankInstruction, int] = {}

    def may_forward(path: Sequence[RankInstruction], channel: int) -> bool:
        mine: dict[tuple[int, str, int], int] = {}
        return all(
            mine.setdefault((one.rank, side, peer), other) == other
            and onward.get((one.rank, side, peer, channel), other) == other
            for one in path
            for side, peer, other in _forwarding(one)
        )

    def is_free(path: Sequence[RankInstruction], channel: int) -> bool:
        return all(busy.get((_link(one, channel), one.depth), one.call) == one.call for one in path[:-1])

    for path in sorted(paths(instructions), key=lambda path: _urgency(path[0])):
        able = [channel for channel in range(MAX_CHANNELS) if may_forward(path, channel)]
        free = [channel for channel in able if is_free(path, channel)] or able
        if not able:
            return None
        first = [channel for channel in free if channel < spread] or free[:1]
        channel = min(first, key=lambda c: max((load[_link(one, c)] for one in path[:-1]), default=0))
        for one in path:
            channels[one] = channel
            onward.update({(one.rank, side, peer, channel): other for side, peer, other in _forwarding(one)})
        busy.update({(_link(one, channel), one.depth): one.call for one in path[:-1]})
        load.update(_link(one, channel) for one in path[:-1])
    return channels


def _link(one: RankInstruction, channel: int) -> Connection:
    """Of what it sends."""
    return one.rank, one.sends, channel


def _forwarding(one: RankInstruction) -> Iterator[tuple[str, int, int]]:
    if one.source and one.target:
        yield "from", one.receives, one.sends
        yield "to", one.sends, one.receives


# -------------------------------------------------------------------------------------------------- order
def _ordered(
    instructions: Sequence[RankInstruction], channels: Mapping[RankInstruction, int]
) -> list[RankInstruction] | None:
    """An order that all dependences allow, and in which each connection's messages arrive as they are sent.

    None if there is none: a message needs one that comes behind it.
    """
    users: dict[RankInstruction, list[RankInstruction]] = {one: [] for one in instructions}
    missing = {one: len(one.before) for one in instructions}
    for one in instructions:
        for other in one.before:
            users[other].append(one)
    number = {one: i for i, one in enumerate(instructions)}
    on_the_way: dict[Connection, deque[RankInstruction]] = defaultdict(deque)
    ready = [(*_urgency(one), number[one]) for one in instructions if not missing[one]]
    heapq.heapify(ready)

    def offer(one: RankInstruction) -> None:
        if missing[one]:
            return
        if not one.source or on_the_way[one.receives, one.rank, channels[one]][0] is one:
            heapq.heappush(ready, (*_urgency(one), number[one]))

    order: list[RankInstruction] = []
    while ready:
        one = instructions[heapq.heappop(ready)[-1]]
        order.append(one)
        if one.target:
            on_the_way[one.rank, one.sends, channels[one]].append(one.target)
        for user in users[one]:
            missing[user] -= 1
            offer(user)
        if one.source:
            coming = on_the_way[one.receives, one.rank, channels[one]]
            coming.popleft()
            if coming:
                offer(coming[0])
    return order if len(order) == len(instructions) else None


# ------------------------------------------------------------------------------------------------- blocks
class _Blocks:
    """Thread blocks, as instructions are added to them in order."""

    def __init__(
        self,
        instructions: Iterable[RankInstruction],
        channels: Mapping[RankInstruction, int],
        ranks: int,
        paired: bool,
    ) -> None:
        self.of_rank: list[list[ThreadBlock]] = [[] for _ in range(ranks)]
        self.place: dict[RankInstruction, tuple[ThreadBlock, int]] = {}
        self.waits: dict[RankInstruction, list[RankInstruction]] = {}
        self._channels = channels
        self._number: dict[RankInstruction, int] = {}
        self._sending: dict[Connection, ThreadBlock] = {}
        self._receiving: dict[Connection, ThreadBlock] = {}
        self._ended: dict[
            RankInstruction, dict[int, int]
        ] = {}  # what has run once it has: thread block -> how many
        self._seen: dict[ThreadBlock, dict[int, int]] = defaultdict(dict)
        peers = {(one.rank, channels[one], one.sends, one.receives) for one in instructions}
        for rank, channel, send, receive in sorted(peers):
            if send >= 0 and receive >= 0:
                self._open(rank, channel, send, receive)
        for rank, channel, send, _ in sorted(peers):
            if send >= 0 and (rank, send, channel) not in self._sending:
                both = paired and (rank, channel, -1, send) in peers
                both = both and (send, rank, channel) not in self._receiving
                self._open(rank, channel, send, send if both else -1)
        for rank, channel, _, receive in sorted(peers):
            if receive >= 0 and (receive, rank, channel) not in self._receiving:
                self._open(rank, channel, -1, receive)
        for rank, blocks in enumerate(self.of_rank):
            if not blocks:
                self._open(rank, 0, -1, -1)

    def _open(self, rank: int, channel: int, send: int, receive: int) -> None:
        block = ThreadBlock(rank, len(self.of_rank[rank]), send, receive, channel)
        self.of_rank[rank].append(block)
        if send >= 0:
            self._sending[rank, send, channel] = block
        if receive >= 0:
            self._receiving[receive, rank, channel] = block

    def add(self, one: RankInstruction) -> None:
        """Add an instruction; all that it waits for are there."""
        block = self._block_of(one)
        seen = self._seen[block]
        waits: list[RankInstruction] = []
        for other in sorted(one.after, key=self._number.__getitem__, reverse=True):
            theirs, before = self.place[other]
            if theirs is not block and seen.get(theirs.number, 0) <= before:
                waits.append(other)
                for number, ended in self._ended[other].items():
                    seen[number] = max(seen.get(number, 0), ended)
        self._number[one] = len(self._number)
        self.place[one] = block, len(block.instructions)
        self.waits[one] = waits[::-1]
        block.instructions.append(one)
        seen[block.number] = len(block.instructions)
        self._ended[one] = dict(seen)

    def _block_of(self, one: RankInstruction) -> ThreadBlock:
        channel = self._channels[one]
        if one.target:
            return self._sending[one.rank, one.sends, channel]
        if one.source:
            return self._receiving[one.receives, one.rank, channel]
        if one.after:
            return self.place[max(one.after, key=self._number.__getitem__)][0]
        return min(self.of_rank[one.rank], key=lambda block: len(block.instructions))


# -------------------------------------------------------------------------------------------------- a run
def _runs(placement: PlacedBlocks, *, whole: bool) -> bool:
    """Whether all thread blocks get to their ends; a message is a whole step, or one of its chunks."""
    sent: dict[Connection, int] = defaultdict(int)
    received: dict[Connection, int] = defaultdict(int)

    waiting = [block for blocks in placement.blocks for block in blocks]
    done = dict.fromkeys(waiting, 0)
    part = dict.fromkeys(waiting, 0)  # of the instruction that it is at

    def advance(block: ThreadBlock) -> bool:
        one = block.instructions[done[block]]
        for other in placement.waits[one]:
            theirs, before = placement.place[other]
            if done[theirs] <= before:
                return False
        into = (one.receives, one.rank, block.channel)
        out = (one.rank, one.sends, block.channel)
        if one.source and sent[into] == received[into]:
            return False
        if one.target and sent[out] - received[out] >= FEWEST_SLOTS:
            return False
        received[into] += one.source is not None
        sent[out] += one.target is not None
        part[block] += 1
        if whole or part[block] == one.count or not (one.source or one.target):
            done[block] += 1
            part[block] = 0
        return True

    moved = True
    while moved:
        moved = False
        for block in waiting:
            while done[block] < len(block.instructions) and advance(block):
                moved = True
    return all(done[block] == len(block.instructions) for block in waiting)
