"""MSCCL XML on the simulated machine, as the runtime of ROCm/rccl and Azure/msccl-executor-nccl has it.

Facts, of rccl's src/misc/msccl/msccl_parser.cc and src/device/msccl_kernel_impl.h:

- Steps run in the order of the file. A thread block publishes the number of its last step with hasdep=1; who
  depends on a step waits for that number or a higher one. A nop publishes nothing: its dependency goes to the next
  operation, which must have one of its own. A nop without a dependency is not counted.
- `re` steps one after the other with one destination and one source buffer become one reduction, which writes once.
- A connection (sender, receiver, channel) has slots. Who receives and sends waits for a message and for a free slot
  before it touches either. A step is one message, as long as a slot holds its chunks; of larger data it is several.
"""

import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.schedules.machine_memory import Collective, Memory
from tests.schedules.machine_order import Broken, Order, Steps, Thread, Wait

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrc", "rrs", "rrcs"})
READS = frozenset({"s", "rrc", "rrs", "rrcs", "re", "cpy"})
WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "re", "cpy"})
KINDS = SENDS | RECEIVES | READS

# Messages in flight: NCCL has 8 steps, of which `Simple` takes 4 for a message.
SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}
BLOCK = "thread block {1} of rank {0}"


@dataclass(eq=False, slots=True)
class Transmission:
    """A step as it runs. `sources` and `into` are lists of cells and the place of the first chunk."""

    name: str
    kind: str
    count: int
    sources: list[tuple[list[int], int]] = field(default_factory=list)
    into: tuple[list[int], int] = field(default_factory=lambda: ([], 0))
    waits: list[tuple[int, int]] = field(default_factory=list)
    publishes: int | None = None


@dataclass(eq=False, slots=True)
class Wire:
    """A connection: messages that are under way, and how the two ends are called in a deadlock."""

    filled: Wait
    emptied: Wait
    messages: deque[list[int]] = field(default_factory=deque)


class MscclMachine:
    """One schedule in its beginning, for one run."""

    def __init__(
        self,
        algo: ET.Element,
        collective: str | None,
        random: Random,
        slots: int | None,
        message: int | None,
        *,
        in_place: bool,
    ) -> None:
        self._random, self._order = random, Order(random)
        gpus = _numbered(algo.findall("gpu"), "gpu")
        if len(gpus) != _number(algo, "ngpus"):
            raise Broken(f"{len(gpus)} gpus, but ngpus={algo.get('ngpus')}")
        if algo.get("proto") not in SLOTS:
            raise Broken(f"no protocol {algo.get('proto')!r}")
        name = (collective or algo.get("coll") or "").replace("_", "")
        whole = Collective(name, len(gpus), _number(algo, "nchunksperloop"))
        declared = [{buffer: _number(gpu, f"{buffer}_chunks") for buffer in "ios"} for gpu in gpus]
        self._memory = Memory(whole, declared, in_place=in_place)
        for rank in range(len(gpus)):
            self._memory.begun(rank)
        self._ranks = len(gpus)
        self._slots = slots or SLOTS[str(algo.get("proto"))]
        self._message = message or 1 << 30  # chunks
        self._wires: dict[tuple[int, int, int], Wire] = {}
        self._ends: set[tuple[str, int, int, int]] = set()
        self._published: list[list[int]] = []
        self._threads = [thread for rank, gpu in enumerate(gpus) for thread in self._loaded(rank, gpu)]

    def run(self) -> None:
        """Raises Stuck, Broken or Wrong."""
        self._order.run(self._threads)
        for (sender, receiver, channel), wire in self._wires.items():
            if wire.messages:
                raise Broken(f"rank {receiver} does not receive what rank {sender} sent on channel {channel}")
        for rank in range(self._ranks):
            self._memory.ended(rank)

    def _loaded(self, rank: int, gpu: ET.Element) -> list[Thread]:
        blocks = _numbered(gpu.findall("tb"), f"rank {rank}: tb")
        self._published.append([-1] * len(blocks))
        threads = []
        for number, block in enumerate(blocks):
            thread = Thread(f"rank {rank}, thread block {number}")
            loaded = self._transmissions(thread.name, rank, len(blocks), block)
            kinds, channel = {step.kind for step in loaded}, _number(block, "chan")
            send, receive = _number(block, "send"), _number(block, "recv")
            out = self._wire(thread.name, "sends", rank, send, channel) if kinds & SENDS else None
            come = self._wire(thread.name, "receives", receive, rank, channel) if kinds & RECEIVES else None
            thread.steps = self._steps(thread, loaded, rank, number, come, out)
            threads.append(thread)
        return threads

    def _wire(self, name: str, end: str, sender: int, receiver: int, channel: int) -> Wire:
        """The connection. One thread block alone has each of its ends."""
        if sender == receiver or not (0 <= sender < self._ranks and 0 <= receiver < self._ranks):
            raise Broken(f"{name} {end} from rank {sender} to rank {receiver}, of {self._ranks}")
        if (end, sender, receiver, channel) in self._ends:
            raise Broken(f"{name} {end} from {sender} to {receiver} on channel {channel}: another does, too")
        self._ends.add((end, sender, receiver, channel))
        between = sender, receiver, channel
        message = ("a message of rank {} to rank {} on channel {}", *between)
        slot = ("a free slot from rank {} to rank {} on channel {}", *between)
        return self._wires.setdefault(between, Wire(message, slot))

    def _transmissions(self, name: str, rank: int, blocks: int, block: ET.Element) -> list[Transmission]:
        """What the runtime makes of the steps of a thread block."""
        made: list[Transmission] = []
        pending: list[tuple[int, int]] = []
        joined: tuple[str | None, ...] | None = None  # what a `re` must have to join the one before it
        for at, step in enumerate(block.findall("step")):
            kind, short = step.get("type", ""), f"step {at} ({step.get('type')})"
            where = f"{name}, {short}"
            depends, number, published = (_number(step, key) for key in ("depid", "deps", "hasdep"))
            if _number(step, "s") != at:
                raise Broken(f"{where} is numbered {step.get('s')}")
            if depends >= blocks or (depends >= 0 and number < 0):
                raise Broken(f"{where} depends on step {number} of thread block {depends}, of {blocks}")
            if depends >= 0:
                pending.append((depends, number))
            if kind == "nop":
                continue
            if kind not in KINDS:
                raise Broken(f"{where}: there is no such operation")
            new = self._transmission(Transmission(short, kind, _number(step, "cnt")), where, rank, step)
            alike = tuple(step.get(key) for key in ("srcbuf", "dstbuf", "dstoff"))
            if kind == "re" and depends < 0 and joined == alike:
                made[-1].sources += new.sources
                made[-1].count = new.count
            else:
                if pending and depends < 0:
                    raise Broken(f"{where} has no dependency of its own, but nops before it have")
                new.waits, pending = pending, []
                made.append(new)
            made[-1].publishes = published if published else None
            joined = alike if kind == "re" and not published else None
        counted = 0
        for one in made:
            counted += max(len(one.waits) - 1, 0) + max(len(one.sources) - 1, 0)
            one.publishes = None if one.publishes is None else counted
            counted += 1
        return made

    def _transmission(self, made: Transmission, where: str, rank: int, step: ET.Element) -> Transmission:
        """With the places of its chunks. What an operation does not use is not looked at."""
        places = self._memory.place
        if made.kind in READS:
            buffer, index = step.get("srcbuf", ""), _number(step, "srcoff")
            made.sources.append(places(rank, buffer, index, made.count, where))
        if made.kind in WRITES:
            buffer, index = step.get("dstbuf", ""), _number(step, "dstoff")
            made.into = places(rank, buffer, index, made.count, where)
        return made

    def _steps(
        self,
        thread: Thread,
        steps: list[Transmission],
        rank: int,
        block: int,
        come: Wire | None,
        out: Wire | None,
    ) -> Steps:
        """A thread block. Between reading and writing a chunk, and between chunks, others may run."""
        published, changed = self._published[rank], self._order.changed
        for step in steps:
            thread.at = step.name
            for other, number in step.waits:
                while published[other] < number:
                    yield BLOCK, rank, other
            into, place = step.into
            inbox = come if step.kind in RECEIVES else None
            outbox = out if step.kind in SENDS else None
            for first in range(0, step.count, self._message):
                size = min(self._message, step.count - first)
                if inbox is not None:
                    while not inbox.messages:
                        yield inbox.filled
                    came = len(inbox.messages[0])
                    if came != size:
                        raise Broken(f"{thread.name}, {step.name} takes {size} chunks, and {came} came")
                if outbox is not None:
                    while len(outbox.messages) >= self._slots:
                        yield outbox.emptied
                yield None
                message = list(inbox.messages[0]) if inbox is not None else [0] * size
                for chunk in range(size) if size == 1 else self._random.sample(range(size), size):
                    value = message[chunk]
                    for cells, at in step.sources:
                        value += cells[at + first + chunk]
                    if step.kind == "re":
                        value += into[place + first + chunk]
                    yield None
                    if step.kind in WRITES:
                        into[place + first + chunk] = value
                    message[chunk] = value
                if outbox is not None:
                    outbox.messages.append(message)
                    changed(outbox.filled)
                if inbox is not None:
                    inbox.messages.popleft()
                    changed(inbox.emptied)
            if step.publishes is not None:
                published[block] = step.publishes
                changed((BLOCK, rank, block))


def machines(
    text: str, collective: str | None, random: Random, slots: int | None, message: int | None
) -> Iterator[MscclMachine]:
    """The schedule in place, out of place, or both: as the file says that it may run."""
    try:
        algo = ET.fromstring(text)
    except ET.ParseError as error:
        raise Broken(f"no XML: {error}") from None
    if algo.tag != "algo":
        raise Broken(f"XML of <{algo.tag}>, not of <algo>")
    placed = [in_place for key, in_place in (("inplace", True), ("outofplace", False)) if _number(algo, key)]
    if not placed:
        raise Broken("neither inplace nor outofplace")
    for in_place in placed:
        yield MscclMachine(algo, collective, random, slots, message, in_place=in_place)


def _numbered(elements: list[ET.Element], what: str) -> list[ET.Element]:
    """By id, which counts from 0."""
    by_id = {_number(element, "id"): element for element in elements}
    if by_id.keys() != set(range(len(elements))):
        raise Broken(f"{what}: ids {sorted(by_id)}, {len(elements)} of them")
    return [by_id[at] for at in range(len(elements))]


def _number(element: ET.Element, key: str) -> int:
    try:
        return int(element.get(key, ""))
    except ValueError:
        raise Broken(f"<{element.tag}>: {key}={element.get(key)!r} is no integer") from None
