"""The operations of an MSCCL++ plan: reads, writes and waits of each; and the walk through a thread block.

After the kernel of microsoft/mscclpp that runs plans (`src/core/include/execution_kernel.hpp`). A rank has buffers
input, output and scratch, and thread blocks; each does its operations in order. `src` and `dst` are spans of its
rank, or remote: of another one. A packet is data with a flag: who reads one waits until it is written.

    moves     read                               write                                 wait for
    copy      src                                dst
    get       each src, remote                   the dst beside it
    put       each src                           the dst beside it, remote
    pws       as put, over port channels, and then as signal; pwsf: then as flush, too
    re        the sum of all src                 dst
    res       the sum of all src                 dst, and more, remote
    rre       the sum of src and remote ones     dst
    rres      the sum of src and remote ones     dst, and more, remote
    glres     the sum of src of all ranks        dst of all ranks of a switch channel
    gstore    src                                dst of all ranks of a switch channel
    gstorepkt packets                            packets of all ranks of one           packets
    cpkt      src                                packets
    upkt      packets                            dst                                   packets
    ppkt      each src                           the packets beside it, remote
              over a port channel: packets, sent as they lie there, whether they are written or not
    rppkt     packets                            packets, remote                       packets
    repkt     the sum of src and packets         dst                                   packets
    respkt    the sum of src and packets         dst; packets, remote                  packets
    recpkt    the sum of src and packets         dst; packets                          packets
    recspkt   the sum of src and packets         dst; packets; packets, remote         packets

    orders
    nop           all threads of the thread block wait for each other
    barrier       so do those of `num_threadblocks` thread blocks
    signal        on each channel: what its thread did before is over
    wait          its thread waits for the next signal on each channel
    rlxsignal     as signal, rlxwait as wait; over memory channels they order execution, not data
    flush         its thread waits until what was put on a port channel is over
    sem_release   adds one to a semaphore of the rank; sem_acquire waits until one is there, and takes it
    pipeline      its operations in a loop, each time on the next `unit_size` bytes of each span

`tbg_info` gives a thread block its share of each span.

The kernel keeps this order, and no more:
- All threads of a thread block do a move: element `e` of a span is for thread `e` modulo their number, and packets
  count in other steps than data. So of two moves without a nop between, the same places of their spans are in order
  if both move packets, or neither does. All else is not: other threads may be ahead.
- The channel or semaphore `i` of an operation is for thread `i` alone.
- A put over a port channel is done by others: it is over where a later signal on that channel has arrived, or
  behind a flush.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.actions import Cell, ChunkAction, Effect
from overlayccl_core.schedules.mscclpp_file import MscclppOperation
from overlayccl_core.schedules.mscclpp_places import (
    OF_PACKETS,
    PACKET,
    UNITS,
    Column,
    MscclppStep,
    PlanChannel,
    PlanPlaces,
    PlanSemaphore,
)

MOVES = {  # the patterns of src and of dst: PlanPlaces.columns
    "copy": ("l", "l"),
    "get": ("r r*", "l l*"),
    "put": ("l l*", "r r*"),
    "pws": ("l l*", "r r*"),
    "pwsf": ("l l*", "r r*"),
    "re": ("l l*", "l"),
    "res": ("l l*", "l r*"),
    "rre": ("l r*", "l"),
    "rres": ("l r*", "l r*"),
    "glres": ("m", "m"),
    "gstore": ("l", "m"),
    "gstorepkt": ("p", "M"),
    "cpkt": ("l", "p"),
    "upkt": ("p", "l"),
    "ppkt": ("l l*", "R R*"),
    "rppkt": ("p", "R R*"),
    "repkt": ("l p*", "l"),
    "respkt": ("l p*", "l R*"),
    "recpkt": ("l p*", "l p"),
    "recspkt": ("l p*", "l p R*"),
}
PORT_MOVES = {"put", "pws", "pwsf", "ppkt", "rppkt"}
PAIRED = {"get", "put", "pws", "pwsf", "ppkt"}
PACKETS_FIRST = {"repkt", "respkt", "recpkt", "recspkt"}  # the kernel adds its own last
MAX_ACTIONS = 30_000
Lane = tuple[str, int]
"""Threads that do what they do in order: those at a part of data, or of packets; or one, by its number."""
Counted = PlanChannel | PlanSemaphore
"""What is counted: signals on a channel (from its sender), or a semaphore."""


class PlanRun:
    """The actions of all thread blocks.

    Attributes:
        actions: In no order but that of the file; each waits for those of its own thread block.
        released, acquired: Signals and waits, releases and acquisitions, by rank and thread block.
        barriers: For each barrier, by its rank and number, and each thread block: the action that comes to it, the
            one that leaves it, and how many thread blocks it is for, round by round.
        loops: How much more is released than acquired in pipelines, by the `unit_size` of each.
        packets: Who waits for which packet.
    """

    def __init__(self, places: PlanPlaces) -> None:
        self.places = places
        self.actions: list[ChunkAction] = []
        self.released: dict[Counted, dict[tuple[int, int], list[ChunkAction]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.acquired: dict[Counted, dict[tuple[int, int], list[ChunkAction]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.barriers: dict[tuple[int, int], dict[int, list[tuple[ChunkAction, ChunkAction, int]]]] = (
            defaultdict(lambda: defaultdict(list))
        )
        self.loops: dict[Counted, Counter[int]] = defaultdict(Counter)
        self.packets: list[tuple[ChunkAction, Cell]] = []
        self.registers = count()

    def release(self, counted: Counted, step: MscclppStep, action: ChunkAction) -> None:
        """Count what an action releases, or signals."""
        self.released[counted][step.rank, step.block].append(action)
        if step.loop:
            self.loops[counted][step.loop.unit_size] += 1

    def acquire(self, counted: Counted, step: MscclppStep, action: ChunkAction) -> None:
        """Count what an action acquires, or waits for."""
        self.acquired[counted][step.rank, step.block].append(action)
        if step.loop:
            self.loops[counted][step.loop.unit_size] -= 1

    def add(self, action: ChunkAction) -> ChunkAction:
        """Add an action, and return it."""
        if len(self.actions) >= MAX_ACTIONS:
            raise Rejected(
                f"it has more than {MAX_ACTIONS} actions, one for each part of a span: it is not read"
            )
        self.actions.append(action)
        return action


class BlockWalk:
    """One thread block: the actions of its operations, and their waits for each other."""

    def __init__(self, run: PlanRun, rank: int, block: int, begin: ChunkAction) -> None:
        self._run, self._places, self._rank, self._block = run, run.places, rank, block
        self._fence = begin  # all threads are behind it
        self._fences = 0
        self._lanes: dict[Lane, ChunkAction] = {}  # the last action of each behind the fence
        self._posted: dict[PlanChannel, list[tuple[Lane, int, list[ChunkAction]]]] = defaultdict(list)
        self._orders: dict[str, Callable[[MscclppStep], None]] = {
            "nop": self._nop,
            "barrier": self._barrier,
            "signal": self._signal,
            "rlxsignal": self._signal,
            "wait": self._wait,
            "rlxwait": self._wait,
            "flush": self._flush,
            "sem_release": lambda step: self._semaphores(step, self._run.release),
            "sem_acquire": lambda step: self._semaphores(step, self._run.acquire),
            "pipeline": self._pipeline,
        }

    def do(self, operations: Iterable[MscclppOperation]) -> None:
        """Add the actions of operations."""
        for number, operation in enumerate(operations):
            self._do(MscclppStep(self._rank, self._block, number, operation))

    def last(self) -> list[ChunkAction]:
        """The actions behind which all threads have done everything."""
        return list(self._lanes.values()) or [self._fence]

    def _do(self, step: MscclppStep) -> None:
        name = step.operation.name
        if name in MOVES:
            self._move(step)
        elif name in self._orders:
            self._orders[name](step)
        else:
            known = ", ".join([*MOVES, *self._orders])
            raise Rejected(f"{step}: {name!r} is none of the operations {known}")

    # ------------------------------------------------------------------------------------------------ actions
    def _add(
        self, step: MscclppStep, lane: Lane, effects: Sequence[Effect] = (), *after: ChunkAction
    ) -> ChunkAction:
        """Add an action behind the last one of its lane."""
        action = self._apart(step, effects, self._lanes.get(lane, self._fence), *after)
        self._lanes[lane] = action
        return action

    def _apart(self, step: MscclppStep, effects: Sequence[Effect] = (), *after: ChunkAction) -> ChunkAction:
        """Add an action that no thread of the thread block waits for."""
        return self._run.add(
            ChunkAction(self._rank, self._block, step.number, step.name, tuple(effects), list(after))
        )

    def _join(self, step: MscclppStep, after: Sequence[ChunkAction]) -> ChunkAction:
        """Add an action that all threads are behind."""
        self._fence = self._apart(step, (), *after)
        self._fences += 1
        self._lanes.clear()
        return self._fence

    # -------------------------------------------------------------------------------------------------- moves
    def _move(self, step: MscclppStep) -> None:
        operation = step.operation
        sources, targets = self._patterns(step)
        read = self._places.columns(step, operation.src_buff, sources)
        written = self._places.columns(step, operation.dst_buff, targets)
        if len({span.size for span in (*operation.src_buff, *operation.dst_buff)}) > 1:
            raise Rejected(f"{step} has spans of different sizes")
        if operation.name in PAIRED and len(read) != len(written):
            raise Rejected(f"{step} has {len(read)} src_buff and {len(written)} dst_buff, which go in pairs")
        if operation.name in PACKETS_FIRST:
            read = [*read[1:], read[0]]
        pairs = zip(([x] for x in read), ([y] for y in written), strict=True)
        moves = list(pairs) if operation.name in PAIRED else [(read, written)]
        if operation.channel_type == "port":
            self._post(step, moves)
            return
        kind = "packets" if _has_packets(sources, targets) else "data"
        for terms, into in moves:
            for part in range(len(terms[0])):
                cells = [cell for column in into for cell in column[part]]
                self._move_part(
                    step, (kind, part), [cell for column in terms for cell in column[part]], cells
                )

    def _patterns(self, step: MscclppStep) -> tuple[str, str]:
        """The patterns of a move, whose kind of channel fits."""
        operation = step.operation
        name, over = operation.name, operation.channel_type
        sources, targets = MOVES[name]
        if _has_packets(sources, targets) and step.unit is not None:
            raise Rejected(f"{step}: a pipeline cuts data into units, but no packets")
        if over == "port" and name not in PORT_MOVES:
            raise Rejected(f"{step} goes over memory channels, not over port channels")
        if name in ("pws", "pwsf") and over != "port":
            raise Rejected(f"{step} goes over port channels (its channel_type is {over})")
        if operation.reduce_op != "sum":
            raise Rejected(f"{step} reduces by {operation.reduce_op!r}: sums are proven, nothing else")
        if over == "port" and name == "ppkt":
            sources = "p p*"
        return sources, targets

    def _move_part(self, step: MscclppStep, lane: Lane, terms: Sequence[Cell], into: Sequence[Cell]) -> None:
        """Add the sum of cells to others. The sum for several others is made once."""
        packets = [cell for cell in terms if cell[1] == self._places.label(PACKET)]
        if len(terms) > 1 and len(into) > 1:
            register = self._register()
            action = self._add(step, lane, [Effect(register, tuple(terms))])
            self._add(step, lane, [Effect(cell, (register,)) for cell in into])
        else:
            effects = [Effect(cell, tuple(terms)) for cell in into if [cell] != terms]  # not onto itself
            action = self._add(step, lane, effects)
        self._run.packets += [(action, cell) for cell in packets]

    def _register(self) -> Cell:
        return self._rank, "registers", next(self._run.registers)

    def _post(self, step: MscclppStep, moves: Sequence[tuple[list[Column], list[Column]]]) -> None:
        """Hand moves over to port channels, the `i`-th by thread `i`."""
        name = step.operation.name
        if name == "rppkt":  # all threads wait for the packets before the first is handed over
            ((source,), targets), seen = moves[0], Column()
            for part, cells in enumerate(source):
                seen.append((self._register(),))
                action = self._add(step, ("packets", part), [Effect(seen[part][0], cells)])
                self._run.packets += [(action, cell) for cell in cells]
            self._join(step, self.last())
            moves = [([seen], [target]) for target in targets]
        for i, ((source,), (target,)) in enumerate(moves):
            lane = ("thread", i)
            channel = self._channel(step, i)
            if target[0][0][0] != channel.peer:
                raise Rejected(f"{step} puts to rank {target[0][0][0]} over the {channel}")
            handed = self._add(step, lane)
            moved = [
                self._apart(step, [Effect(into, terms) for into in cells], handed)
                for terms, cells in zip(source, target, strict=True)
            ]
            self._posted[channel].append((lane, self._fences, moved))
            if name in ("pws", "pwsf"):
                self._tell(step, channel, lane, handed)
            if name == "pwsf":
                self._add(step, lane, (), *moved)

    def _channel(self, step: MscclppStep, i: int) -> PlanChannel:
        ids = step.operation.channel_ids
        if i >= len(ids):
            raise Rejected(f"{step} has {len(ids)} channel_ids: it takes one for each of its dst_buff")
        return self._places.channel(step, ids[i])

    # ------------------------------------------------------------------------------------------------- orders
    def _channels(self, step: MscclppStep) -> Iterator[tuple[Lane, PlanChannel]]:
        if not step.operation.channel_ids:
            raise Rejected(f"{step} has no channel_ids")
        if step.operation.channel_type not in ("memory", "port"):
            raise Rejected(f"{step} takes memory or port channels (got {step.operation.channel_type!r})")
        for i, id_ in enumerate(step.operation.channel_ids):
            yield ("thread", i), self._places.channel(step, id_)

    def _signal(self, step: MscclppStep) -> None:
        for lane, channel in self._channels(step):
            self._tell(step, channel, lane, self._add(step, lane))

    def _tell(self, step: MscclppStep, channel: PlanChannel, lane: Lane, sent: ChunkAction) -> None:
        """A signal arrives: over a port channel, behind the puts before it."""
        arrived = self._apart(step, (), sent, *self._puts(channel, lane)) if channel.type == "port" else sent
        self._run.release(channel, step, arrived)

    def _puts(self, channel: PlanChannel, lane: Lane) -> list[ChunkAction]:
        """The puts on a channel that come before a thread's use of it now."""
        return [
            action
            for by, fences, moved in self._posted[channel]
            if by == lane or fences < self._fences
            for action in moved
        ]

    def _wait(self, step: MscclppStep) -> None:
        for lane, channel in self._channels(step):
            self._run.acquire(channel.other_end, step, self._add(step, lane))

    def _flush(self, step: MscclppStep) -> None:
        for lane, channel in self._channels(step):
            if channel.type != "port":
                raise Rejected(
                    f"{step} takes port channels: over memory channels nothing is left to be flushed"
                )
            self._add(step, lane, (), *self._puts(channel, lane))

    def _semaphores(
        self, step: MscclppStep, count_: Callable[[Counted, MscclppStep, ChunkAction], None]
    ) -> None:
        if not step.operation.semaphore_ids:
            raise Rejected(f"{step} has no semaphore_ids")
        for i, id_ in enumerate(step.operation.semaphore_ids):
            semaphore = self._places.semaphore(step, id_)
            count_(semaphore, step, self._add(step, ("thread", i)))

    def _nop(self, step: MscclppStep) -> None:
        self._join(step, self.last())

    def _barrier(self, step: MscclppStep) -> None:
        number, blocks = step.operation.barrier_id, step.operation.num_threadblocks
        if number is None or blocks is None:
            raise Rejected(f"{step} has no {'barrier_id' if number is None else 'num_threadblocks'}")
        come = self._join(step, self.last())
        leave = self._join(step, [come])
        self._run.barriers[self._rank, number][self._block].append((come, leave, blocks))

    def _pipeline(self, step: MscclppStep) -> None:
        loop = step.operation.iter_context
        if loop is None:
            raise Rejected(f"{step} has no iter_context")
        if step.unit is not None:
            raise Rejected(f"{step} is inside of another one")
        for unit in range(loop.num_chunks * UNITS):
            for operation in step.operation.ops:
                inner = MscclppStep(self._rank, self._block, step.number, operation, unit, loop)
                self._do(inner)


def _has_packets(*patterns: str) -> bool:
    return any(letter in pattern for letter in OF_PACKETS for pattern in patterns)
