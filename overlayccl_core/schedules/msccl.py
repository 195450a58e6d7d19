"""MSCCL XML: what a file means.

The format of microsoft/msccl-tools, and of the runtimes that take its files (MSCCL, RCCL). A file has the steps of
each thread block of each GPU. What a step does with `cnt` chunks of local buffers, `src` and `dst`:

    s     send src                    rrc    received + src -> dst
    r     received -> dst             rrs    received + src is sent
    rcs   received -> dst, and sent   rrcs   both
    cpy   src -> dst                  re     dst + src -> dst
    nop   carries a wait of the next step that has one, too

The steps of a thread block run one after the other. A step may wait for a step of another thread block of its GPU
(`depid`, `deps`): until that one, or a later one of its thread block, is over and tells so (`hasdep`; a nop never
does). Sends and
receives between two GPUs on a channel match in order; a connection holds few sends before they are received
(SLOTS). In place, input and output (`i`, `o`) are one buffer.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.actions import BUFFERS, Cell, ChunkAction, Effect, in_order
from overlayccl_core.schedules.msccl_file import (
    READS_SOURCE,
    RECEIVES,
    SENDS,
    WRITES_TARGET,
    MscclFile,
    MscclStep,
    parse,
)
from overlayccl_core.schedules.schedule import ALL_TO_NEXT, Schedule, collective_of

SLOTS = {"simple": 2, "ll": 8, "ll128": 8}
"""By protocol: a connection of MSCCL has 8 buffers, and a send of Simple takes 4 of them (MSCCL_CHUNKSTEPS)."""
NOP = "a nop carries one more wait of the next step that waits"
FEWEST_SLOTS = min(SLOTS.values())
Connection = tuple[int, int, int]
"""Source, destination, channel."""


def read(text: str, collective: str | None = None) -> list[Schedule]:
    """Return the schedule of a file, once for each use that it is for: out of place, in place.

    Args:
        collective: What it should be, in place of what the file says.

    Raises:
        Rejected: It is no such file, or it cannot run; one line, with the place.
    """
    file = parse(text)
    said = collective_of(file.collective, collective)
    return [_schedule(file, said, in_place) for in_place in file.in_place]


def _schedule(file: MscclFile, collective: str, in_place: bool) -> Schedule:
    buffers = _Buffers(file, collective, in_place)
    actions = {step: ChunkAction(step.rank, step.block, step.number, step.kind) for step in file.steps}
    wires = _matched(file, actions)
    for step, action in actions.items():
        action.effects = tuple(_effects(step, buffers, wires))
    tellers = {
        (rank, number): _tellers(block.steps)
        for rank, gpu in file.gpus.items()
        for number, block in gpu.blocks.items()
    }
    for gpu in file.gpus.values():
        for block in gpu.blocks.values():
            for before, step in pairwise(block.steps):
                if before.kind == "nop" and not step.waits_for:
                    raise Rejected(
                        f"line {step.line}: {step} is behind a nop and waits for nothing itself: {NOP}"
                    )
                _check_joined(before, step)
                actions[step].after.append(actions[before])
            for step in block.steps:
                if step.waits_for:
                    actions[step].after.append(actions[_telling(tellers, step)])
                elif step.kind == "nop":
                    raise Rejected(f"line {step.line}: {step} waits for nothing: {NOP}")
    return Schedule(
        name=file.name + (" in place" if in_place else ""),
        collective=collective,
        ranks=file.ranks,
        given=tuple(buffers.cells(rank, "i") for rank in range(file.ranks)),
        results=tuple(buffers.cells(rank, "o") for rank in range(file.ranks)),
        order=tuple(in_order(list(actions.values()))),
    )


class _Buffers:
    """Where chunks lie: in place, the smaller of input and output is a part of the larger."""

    def __init__(self, file: MscclFile, collective: str, in_place: bool) -> None:
        self._in_place = in_place
        self._scratch = {rank: gpu.chunks["s"] for rank, gpu in file.gpus.items()}
        larger = max(max(gpu.chunks["i"], gpu.chunks["o"]) for gpu in file.gpus.values())
        per_rank, rest = divmod(larger, file.ranks)
        if larger == 0 or (rest and collective not in ("all_reduce", ALL_TO_NEXT)):
            raise Rejected(
                f"{larger} chunks do not divide over {file.ranks} ranks, as those of {collective} do: if it is "
                "another collective, say so by --collective"
            )
        self._sizes = {
            "i": per_rank if collective == "all_gather" else larger,
            "o": per_rank if collective == "reduce_scatter" else larger,
        }
        if larger != file.chunks:
            raise Rejected(
                f"nchunksperloop is {file.chunks}, and its larger buffer has {larger} chunks: a runtime cuts "
                "a call into the first, and steps are of the second"
            )
        for rank, gpu in sorted(file.gpus.items()):
            for buffer, size in self._sizes.items():
                if gpu.chunks[buffer] not in (size, 0):
                    raise Rejected(
                        f"GPU {rank} has {gpu.chunks[buffer]} chunks of {BUFFERS[buffer]}, where {collective} of "
                        f"{file.ranks} ranks with {larger} chunks has {size}"
                    )

    def size(self, rank: int, buffer: str) -> int:
        """Chunks of a buffer."""
        return self._scratch[rank] if buffer == "s" else self._sizes[buffer]

    def cell(self, rank: int, buffer: str, index: int) -> Cell:
        """The cell of a chunk."""
        if not self._in_place or buffer == "s":
            return rank, BUFFERS[buffer], index
        is_part = self._sizes[buffer] < max(self._sizes.values())
        return rank, "the buffer in place", index + (rank * self._sizes[buffer] if is_part else 0)

    def cells(self, rank: int, buffer: str) -> tuple[Cell, ...]:
        """Those of a buffer, in order."""
        return tuple(self.cell(rank, buffer, i) for i in range(self._sizes[buffer]))


class _Wires:
    """For each send and each receive the buffer of what is on its way: one for each message."""

    def __init__(self) -> None:
        self.sent: dict[MscclStep, tuple[int, str]] = {}
        self.received: dict[MscclStep, tuple[int, str]] = {}


def _matched(file: MscclFile, actions: dict[MscclStep, ChunkAction]) -> _Wires:
    """Match sends and receives in order, and add their waits."""
    wires, sends, receives = _Wires(), _ends(file, SENDS), _ends(file, RECEIVES)
    slots = SLOTS.get(file.protocol, FEWEST_SLOTS)
    for connection in sorted({*sends, *receives}):
        source, destination, channel = connection
        out, into = sends.get(connection, []), receives.get(connection, [])
        _check_match(connection, out, into)
        for k, (send, receive) in enumerate(zip(out, into, strict=True)):
            message = (destination, f"message {k} from rank {source} on channel {channel}")
            wires.sent[send] = wires.received[receive] = message
            actions[receive].after.append(actions[send])
            if k >= slots:
                actions[send].room = actions[into[k - slots]]
    return wires


def _ends(file: MscclFile, kinds: set[str]) -> dict[Connection, list[MscclStep]]:
    """The steps that send, or those that receive, by connection."""
    ends: dict[Connection, list[MscclStep]] = defaultdict(list)
    for rank, gpu in file.gpus.items():
        for block in gpu.blocks.values():
            peer = block.send if kinds is SENDS else block.receive
            for step in block.steps:
                if step.kind not in kinds:
                    continue
                verb = "sends" if kinds is SENDS else "receives"
                if peer in (-1, rank):
                    raise Rejected(
                        f"line {step.line}: {step} {verb}, and its thread block has no peer for that"
                    )
                pair = (rank, peer) if kinds is SENDS else (peer, rank)
                steps = ends[(*pair, block.channel)]
                if steps and steps[-1].block != step.block:
                    raise Rejected(
                        f"line {step.line}: {step} {verb} on the connection of thread block {steps[-1].block} "
                        f"(rank {pair[0]} to rank {pair[1]}, channel {block.channel}): give it another channel"
                    )
                steps.append(step)
    return ends


def _check_match(connection: Connection, out: Sequence[MscclStep], into: Sequence[MscclStep]) -> None:
    source, destination, channel = connection
    where = f"from rank {source} to rank {destination} on channel {channel}"
    for send, receive in zip(out, into, strict=False):
        if send.count != receive.count:
            raise Rejected(
                f"line {receive.line}: {receive} takes {receive.count} chunks {where}, and line {send.line} sends "
                f"{send.count}: {send}"
            )
    if len(out) != len(into):
        alone = (out if len(out) > len(into) else into)[min(len(out), len(into))]
        lacks = "a send without its receive" if len(out) > len(into) else "a receive without its send"
        raise Rejected(f"line {alone.line}: {lacks}, {where}: {alone}")


def _tellers(steps: Sequence[MscclStep]) -> list[MscclStep | None]:
    """For each step of a thread block the first from it on that tells that it is over."""
    tellers: list[MscclStep | None] = []
    for step in reversed(steps):
        tells = step.tells and step.kind != "nop"
        tellers.append(step if tells else tellers[-1] if tellers else None)
    return tellers[::-1]


def _telling(tellers: dict[tuple[int, int], list[MscclStep | None]], step: MscclStep) -> MscclStep:
    """The step whose end a step waits for."""
    assert step.waits_for is not None
    number, first = step.waits_for
    of_block = tellers.get((step.rank, number), [])
    if first >= len(of_block):
        raise Rejected(
            f"line {step.line}: {step} waits for step {first} of thread block {number}: there is none"
        )
    telling = of_block[first]
    if telling is None:
        raise Rejected(
            f"line {step.line}: a deadlock: {step} waits for step {first} of thread block {number}, and neither "
            "that step nor a later one tells that it is over (hasdep)"
        )
    return telling


def _check_joined(before: MscclStep, step: MscclStep) -> None:
    """Refuse what a runtime joins into one step of as many chunks as the last has: sums into the same chunks."""
    is_joined = before.kind == step.kind == "re" and not step.waits_for and not before.tells
    alike = before.source[0] == step.source[0] and before.target == step.target
    if is_joined and alike and before.count != step.count:
        raise Rejected(
            f"line {step.line}: {step} adds {step.count} chunks, and the step before {before.count} to the same: "
            "a runtime joins the two, so give both as many"
        )


def _check_apart(step: MscclStep, buffers: _Buffers) -> None:
    """Refuse a step whose threads read what others of it write; chunk by chunk on itself it may write."""
    source, target = (buffers.cell(step.rank, *place) for place in (step.source, step.target))
    apart = target[2] - source[2] if source[:2] == target[:2] else step.count
    if 0 < abs(apart) < step.count or (apart == 0 and step.kind == "re"):
        raise Rejected(f"line {step.line}: {step} reads chunks that it writes itself, in no order")


def _effects(step: MscclStep, buffers: _Buffers, wires: _Wires) -> Iterator[Effect]:
    """What a step does, chunk by chunk."""
    for (buffer, first), uses in ((step.source, READS_SOURCE), (step.target, WRITES_TARGET)):
        if step.kind in uses and first + step.count > buffers.size(step.rank, buffer):
            raise Rejected(
                f"line {step.line}: {step} uses chunk {first + step.count - 1} of {BUFFERS[buffer]}, which has "
                f"{buffers.size(step.rank, buffer)}"
            )
    if step.kind in READS_SOURCE & WRITES_TARGET:
        _check_apart(step, buffers)
    for i in range(0 if step.kind == "nop" else step.count):
        source, target = (buffers.cell(step.rank, b, first + i) for b, first in (step.source, step.target))
        terms = [target] if step.kind == "re" else []
        if step.kind in RECEIVES:
            terms.append((*wires.received[step], i))
        if step.kind in READS_SOURCE:
            terms.append(source)
        if step.kind in WRITES_TARGET:
            yield Effect(into=target, terms=tuple(terms))
        if step.kind in SENDS:
            yield Effect(into=(*wires.sent[step], i), terms=tuple(terms))
