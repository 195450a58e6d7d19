"""MSCCL++ execution plans on the simulated machine, as the executor of microsoft/mscclpp runs them.

Facts, of its src/include/execution_kernel.hpp:

- The threads of a block share the elements of an operation, and are in step at `nop` and `barrier` alone. One
  thread signals, or waits, for each channel of `signal` and `wait`. Here a block has two threads. Which one has the
  n-th cell of an operation is drawn: once for packets, once for the vectors of 16 bytes of other operations, once
  for `glres`, which takes integers one by one.
- A rank's kernel begins and ends by itself: its user writes the buffers before and after.
- A signal adds one to a counter; the n-th wait waits for the n-th signal.
- A packet is an element with a flag, so who reads it waits for it.
- A put on a port channel, and what follows it there, is done by a proxy, in order.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.schedules.machine_order import Broken, Order, Steps, Thread, Wait
from tests.schedules.machine_plan import MOVES, SIGNALS, THREADS, Channel, Move, Operation, Plan

PACKET = "a packet in cell {1} of the scratch of rank {0}"
SIGNAL = "a signal of rank {1} to rank {2} on their {0} channel {3}"
WORK = "work on {0} channel {3} from rank {1} to rank {2}"
FLUSHED = "puts on {0} channel {3} from rank {1} to rank {2}"
TOGETHER = "the other threads at its {0}"
BEGINNING = "the beginning of rank {}"
SEMAPHORE = "semaphore {1} of rank {0}"


@dataclass(eq=False, slots=True)
class Counter:
    """The signals of one channel in one direction, and who waited for them."""

    came: int = 0
    awaited: int = 0


class MscclppMachine:
    """One plan, run once."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan, self._order = plan, Order(random)
        self._signals = defaultdict[Channel, Counter](Counter)
        self._requests = defaultdict[Channel, deque[Move | None]](deque)  # None: a signal
        self._met: dict[Wait, list[int]] = {}
        self._begun = [False] * len(plan.blocks)
        self._whose = defaultdict[tuple[str, int], int](lambda: random.randrange(THREADS))
        self._running = [THREADS * len(blocks) for blocks in plan.blocks]

    def run(self) -> None:
        """Raises Stuck, Broken or Wrong."""
        threads = []
        for rank, blocks in enumerate(self._plan.blocks):
            threads.append(Thread(f"the user of rank {rank}"))
            threads[-1].steps = self._user(rank)
            for block, operations in enumerate(blocks):
                for mine in range(THREADS):
                    threads.append(Thread(f"rank {rank}, thread block {block}, thread {mine}"))
                    threads[-1].steps = self._steps(threads[-1], rank, block, mine, operations)
        for channels in self._plan.channels:
            for channel in channels["port"]:
                threads.append(Thread(f"the proxy of {channel}", endless=True))
                threads[-1].steps = self._proxy(channel)
        self._order.run(threads)
        for (kind, sender, receiver, number), counter in self._signals.items():
            if counter.came != counter.awaited:
                between = f"rank {sender} to rank {receiver} on their {kind} channel {number}"
                raise Broken(f"{counter.came} signals from {between}, and {counter.awaited} waits")
        self._plan.memory.left_alone()

    def _steps(self, thread: Thread, rank: int, block: int, mine: int, operations: list[Operation]) -> Steps:
        """One thread of a block."""
        while not self._begun[rank]:
            yield BEGINNING, rank
        for op in operations:
            thread.at = op.name
            if op.kind == "nop":
                yield from self._meet((TOGETHER, "nop", rank, block), THREADS)
            elif op.kind == "barrier":
                number, blocks = op.numbers
                yield from self._meet((TOGETHER, "barrier", rank, number), THREADS * blocks)
            elif op.kind in MOVES and op.by_proxy:
                yield from self._handed_over(op, rank, block, mine)
            elif op.kind in MOVES:
                for move in op.moves:
                    for cell in self._cells(op, move, mine):
                        yield from self._moved(move, cell)
            else:
                for number in op.numbers[mine::THREADS]:
                    yield from self._semaphore(op.kind, rank, number)
                for channel in op.channels[mine::THREADS]:
                    yield from self._on_channel(op, channel)
            yield None
        self._running[rank] -= 1
        if self._running[rank] == 0:
            self._plan.memory.ended(rank)

    def _user(self, rank: int) -> Steps:
        yield None
        self._plan.memory.begun(rank)
        self._begun[rank] = True
        self._order.changed((BEGINNING, rank))
        yield None
        if not self._plan.blocks[rank]:
            self._plan.memory.ended(rank)

    def _cells(self, op: Operation, move: Move, mine: int) -> list[int]:
        return [cell for cell in range(move.count) if self._whose[op.units, cell] == mine]

    def _moved(self, move: Move, cell: int, *, waiting: bool = True) -> Steps:
        """One cell. A proxy takes packets as they are, without waiting for them."""
        value: int | None = 0
        for rank, held, at in move.packets:
            while waiting and held[at + cell] is None:
                yield PACKET, rank, at + cell
            packet = held[at + cell]
            value = None if value is None or packet is None else value + packet
        yield None
        if value is not None:
            value += sum(cells[at + cell] for cells, at in move.sources)
        yield None
        for cells, at in move.into:
            assert value is not None
            cells[at + cell] = value
            yield None
        for rank, held, at in move.packets_into:
            held[at + cell] = value
            self._order.changed((PACKET, rank, at + cell))
            yield None

    def _on_channel(self, op: Operation, channel: Channel) -> Steps:
        kind, sender, receiver, number = channel
        if op.kind in SIGNALS and op.by_proxy:
            self._request(channel, None)
        elif op.kind in SIGNALS:
            self._signal(channel)
        elif op.kind == "flush":
            while self._requests[channel]:
                yield FLUSHED, *channel
        else:
            back = (kind, receiver, sender, number)
            counter = self._signals[back]
            counter.awaited += 1
            ticket = counter.awaited
            while counter.came < ticket:
                yield SIGNAL, *back

    def _handed_over(self, op: Operation, rank: int, block: int, mine: int) -> Steps:
        """Puts on port channels, each by one thread; packets that are passed on are waited for by all before."""
        if op.kind == "rppkt":
            for move in op.moves:
                for cell in self._cells(op, move, mine):
                    for owner, held, at in move.packets:
                        while held[at + cell] is None:
                            yield PACKET, owner, at + cell
            yield from self._meet((TOGETHER, "rppkt", rank, block), THREADS)
        for at in range(mine, len(op.moves), THREADS):
            self._request(op.channels[at], op.moves[at])
            if op.kind in ("pws", "pwsf"):
                self._request(op.channels[at], None)
            while op.kind == "pwsf" and self._requests[op.channels[at]]:
                yield FLUSHED, *op.channels[at]

    def _request(self, channel: Channel, what: Move | None) -> None:
        self._requests[channel].append(what)
        self._order.changed((WORK, *channel))

    def _proxy(self, channel: Channel) -> Steps:
        queue = self._requests[channel]
        while True:
            while not queue:
                yield WORK, *channel
            if queue[0] is None:
                self._signal(channel)
            else:
                for cell in range(queue[0].count):
                    yield from self._moved(queue[0], cell, waiting=False)
            queue.popleft()
            self._order.changed((FLUSHED, *channel))

    def _signal(self, channel: Channel) -> None:
        self._signals[channel].came += 1
        self._order.changed((SIGNAL, *channel))

    def _semaphore(self, kind: str, rank: int, number: int) -> Steps:
        values = self._plan.semaphores[rank]
        if kind == "sem_release":
            values[number] += 1
            self._order.changed((SEMAPHORE, rank, number))
            return
        while values[number] < 1:
            yield SEMAPHORE, rank, number
        values[number] -= 1

    def _meet(self, where: Wait, threads: int) -> Steps:
        """Wait until so many threads are there."""
        state = self._met.setdefault(where, [0, 0])  # how often they have met, how many are there
        times = state[0]
        state[1] += 1
        if state[1] == threads:
            state[:] = [times + 1, 0]
            self._order.changed(where)
        while state[0] == times:
            yield where


def machines(text: str, collective: str | None, random: Random) -> Iterator[MscclppMachine]:
    """The one plan, placed as it says."""
    try:
        plan = Plan(json.loads(text), collective)
    except json.JSONDecodeError as error:
        raise Broken(f"no JSON: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise Broken(f"no execution plan of MSCCL++: {error!r}") from None
    yield MscclppMachine(plan, random)
