"""Where the steps of an MSCCL++ plan read and write: buffers, shares, units, ids of channels; all bounds checked.

Chunks are cut into so many parts that each share of a group of thread blocks, and each unit of a pipeline, is of
whole parts. A cell is a part. Packets have cells of their own: with their flags they take twice the room, so packet
`c` of scratch lies where its data `2 c` and `2 c + 1` would.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, lcm
from typing import TypeVar

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.actions import BUFFERS as IN_FILES
from overlayccl_core.schedules.actions import Cell, place_text
from overlayccl_core.schedules.mscclpp_file import (
    MscclppBlock,
    MscclppGpu,
    MscclppLoop,
    MscclppOperation,
    MscclppPlan,
    MscclppSpan,
)

T = TypeVar("T")
UNITS = 2  # of a pipeline, a chunk
MAX_CELLS = 2**18
PACKET = "p"
BUFFERS = {**IN_FILES, PACKET: "packets in scratch"}
SPANS = {
    "l": ("type", "a buffer of its rank"),
    "p": ("type", "packets in its rank's scratch"),
    "r": ("buffer_id", "a remote buffer"),
    "R": ("buffer_id", "packets in a remote scratch"),
    "m": ("switch_channel_id", "a switch channel"),
    "M": ("switch_channel_id", "packets of a switch channel"),
}
OF_PACKETS = "pRM"
Group = tuple[str, tuple[int, ...]]
"""Buffer and ranks of a switch channel."""
Column = list[tuple[Cell, ...]]
"""For each part of a span its cell; of a switch, one for each rank."""


@dataclass(frozen=True, slots=True)
class MscclppStep:
    """An operation of a thread block, or one inside of a pipeline at one of its units."""

    rank: int
    block: int
    number: int
    operation: MscclppOperation
    unit: int | None = None
    loop: MscclppLoop | None = None

    @property
    def name(self) -> str:
        """What a message calls it."""
        inside = "" if self.unit is None else f" in a pipeline, at unit {self.unit}"
        return self.operation.name + inside

    def __str__(self) -> str:
        return place_text(self.rank, self.block, self.number, self.name)


@dataclass(frozen=True, slots=True)
class PlanChannel:
    """The `number`-th channel of its type from a rank to a peer; the peer's `number`-th back is its other end."""

    rank: int
    peer: int
    type: str
    number: int

    @property
    def other_end(self) -> "PlanChannel":
        """The same channel, as the peer has it."""
        return PlanChannel(self.peer, self.rank, self.type, self.number)

    def __str__(self) -> str:
        return f"{self.type} channel {self.number} from rank {self.rank} to rank {self.peer}"


@dataclass(frozen=True, slots=True)
class PlanSemaphore:
    """A semaphore of a rank; `free`: how often it is acquired before anybody releases it."""

    rank: int
    number: int
    free: int

    def __str__(self) -> str:
        return f"semaphore {self.number} of rank {self.rank}"


class PlanPlaces:
    """The buffers and channels of a plan."""

    def __init__(self, plan: MscclppPlan, collective: str) -> None:
        self._plan = plan
        self._collective = collective
        self._sizes = _sizes(plan, collective)
        self.parts = _parts(plan)
        chunks = sum(sum(self._sizes.values()) + gpu.scratch_chunks for gpu in plan.gpus)
        if chunks * self.parts > MAX_CELLS:
            raise Rejected(
                f"{chunks} chunks on all ranks, in {self.parts} parts each by tbg_size and pipelines, are more "
                f"than {MAX_CELLS} parts: they are not read"
            )
        self._channels = [list(_channels(plan, rank)) for rank in range(len(plan.gpus))]
        declared = [list(_groups(gpu)) for gpu in plan.gpus]
        self._switches = [list(_switches(declared, rank)) for rank in range(len(plan.gpus))]

    def size(self, rank: int, buffer: str) -> int:
        """Chunks of a buffer."""
        return self._plan.gpus[rank].scratch_chunks if buffer in ("s", PACKET) else self._sizes[buffer]

    def cell(self, rank: int, buffer: str, part: int) -> Cell:
        """The cell of a part: in place, the smaller of input and output is a piece of the larger."""
        if self._plan.inplace and buffer in ("i", "o"):
            if self._collective == "all_gather" and buffer == "i":
                buffer, part = "o", part + rank * self._sizes["i"] * self.parts
            elif self._collective != "all_gather" and buffer == "o":
                offset = rank * self._sizes["o"] * self.parts if self._collective == "reduce_scatter" else 0
                buffer, part = "i", part + offset
        return rank, self.label(buffer), part

    def label(self, buffer: str) -> str:
        """What a message calls a buffer."""
        return BUFFERS[buffer] + (f" (counted in parts of 1/{self.parts} chunk)" if self.parts > 1 else "")

    def cells(self, rank: int, buffer: str) -> tuple[Cell, ...]:
        """All of a buffer, in order."""
        return tuple(self.cell(rank, buffer, part) for part in range(self.size(rank, buffer) * self.parts))

    def columns(self, step: MscclppStep, spans: tuple[MscclppSpan, ...], pattern: str) -> list[Column]:
        """Where spans lie. `pattern`: keys of SPANS, the last with a * for any number more."""
        letters = pattern.split()
        if letters[-1].endswith("*"):
            more = letters.pop()[0]
            letters += [more] * (len(spans) - len(letters))
        if len(letters) != len(spans):
            wanted = " and ".join(SPANS[letter][1] for letter in letters)
            raise Rejected(f"{step} has {len(spans)} spans where it takes {wanted}")
        return [self._column(step, span, letter) for span, letter in zip(spans, letters, strict=True)]

    def channel(self, step: MscclppStep, index: int) -> PlanChannel:
        """The channel that a step names by its place among its thread block's."""
        type_ = step.operation.channel_type
        mine = [c for c in self._channels[step.rank] if c.type == type_]
        block = self._plan.gpus[step.rank].threadblocks[step.block]
        return _at(step, f"{type_} channel", mine, _ids(block, type_), index)

    def semaphore(self, step: MscclppStep, id_: int) -> PlanSemaphore:
        """The semaphore that a step names."""
        semaphores = self._plan.gpus[step.rank].semaphores
        if id_ >= len(semaphores):
            raise Rejected(f"{step} uses semaphore {id_}, and its rank has {len(semaphores)}")
        return PlanSemaphore(step.rank, id_, semaphores[id_].init_value)

    def _column(self, step: MscclppStep, span: MscclppSpan, letter: str) -> Column:
        homes = self._homes(step, span, letter)
        for rank, buffer in homes:
            if span.index + span.size > self.size(rank, buffer):
                raise Rejected(
                    f"{step} uses chunk {span.index + span.size - 1} of {BUFFERS[buffer]} of rank {rank}, which "
                    f"has {self.size(rank, buffer)}"
                )
        first, length = self._stretch(step, span)
        return [tuple(self.cell(*home, part) for home in homes) for part in range(first, first + length)]

    def _homes(self, step: MscclppStep, span: MscclppSpan, letter: str) -> list[tuple[int, str]]:
        """The ranks and buffers of a span."""
        field, means = SPANS[letter]
        value = getattr(span, field)
        if value is None:
            raise Rejected(f"{step} takes {means}, and a span of it has no {field}")
        homes: list[tuple[int, str]]
        if field == "switch_channel_id":
            block = self._plan.gpus[step.rank].threadblocks[step.block]
            switch = _at(step, "switch channel", self._switches[step.rank], _ids(block, "switch"), value)
            homes = [(rank, switch[0]) for rank in switch[1]]
        else:
            homes = [(step.rank, value) if field == "type" else self._remote(step, value)]
        if letter in OF_PACKETS:
            if (buffer := homes[0][1]) != "s":
                raise Rejected(f"{step} takes {means}, and a span of it is of {BUFFERS[buffer]}")
            if self._plan.protocol != "LL":
                raise Rejected(
                    f"{step} uses packets: scratch has room for their flags if protocol is LL only"
                )
            homes = [(rank, PACKET) for rank, _ in homes]
        return homes

    def _remote(self, step: MscclppStep, index: int) -> tuple[int, str]:
        gpu, type_ = self._plan.gpus[step.rank], step.operation.channel_type
        refs = gpu.threadblocks[step.block].remote_buffer_refs
        ids = [i for ref in refs if ref.access_channel_type == type_ for i in ref.remote_buffer_ids]
        buffer = _at(step, f"remote buffer for {type_} channels", list(gpu.remote_buffers), ids, index)
        if type_ not in buffer.access_channel_types:
            raise Rejected(f"{step} reaches a remote buffer over a {type_} channel, which is none of its own")
        if buffer.rank == step.rank or buffer.rank >= len(self._plan.gpus):
            raise Rejected(f"{step} uses a remote buffer of rank {buffer.rank}, which is no other rank")
        return buffer.rank, buffer.type

    def _stretch(self, step: MscclppStep, span: MscclppSpan) -> tuple[int, int]:
        """First part and number of parts that this thread block does now."""
        first, length = span.index * self.parts, span.size * self.parts
        if share := step.operation.tbg_info:
            if share.tb_id >= share.tbg_size:
                raise Rejected(f"{step} is share {share.tb_id} of {share.tbg_size}: shares count from 0")
            length //= share.tbg_size
            first += share.tb_id * length
        if step.loop is not None and step.unit is not None:
            if length != step.loop.num_chunks * self.parts:
                raise Rejected(
                    f"{step} works on {length / self.parts:g} chunks, and its pipeline ends after "
                    f"{step.loop.num_chunks}: they must be as many"
                )
            length = self.parts // UNITS
            first += step.unit * length
        return first, length


def _sizes(plan: MscclppPlan, collective: str) -> dict[str, int]:
    """Chunks of input and output on each rank; in place, one of them may be left out as 0."""
    ranks = len(plan.gpus)
    times = {
        "i": ranks if collective == "reduce_scatter" else 1,
        "o": ranks if collective == "all_gather" else 1,
    }
    unit = max(max(gpu.input_chunks // times["i"], gpu.output_chunks // times["o"]) for gpu in plan.gpus)
    sizes = {buffer: unit * n for buffer, n in times.items()}
    for rank, gpu in enumerate(plan.gpus):
        for buffer, has in (("i", gpu.input_chunks), ("o", gpu.output_chunks)):
            if unit == 0 or (has != sizes[buffer] and not (plan.inplace and has == 0)):
                raise Rejected(
                    f"rank {rank} has {gpu.input_chunks} chunks of input and {gpu.output_chunks} of output, where "
                    f"{collective} of {ranks} ranks has {max(unit, 1) * times['i']} and {max(unit, 1) * times['o']}"
                )
    if collective == "all_to_all" and unit % ranks:
        raise Rejected(f"{unit} chunks do not divide over {ranks} ranks, as those of all_to_all do")
    return sizes


def _parts(plan: MscclppPlan) -> int:
    """Parts of a chunk, so that shares and units are of whole parts."""
    parts, is_loop = 1, False
    for operation in (o for gpu in plan.gpus for block in gpu.threadblocks for o in _all(block.ops)):
        is_loop |= operation.iter_context is not None
        if share := operation.tbg_info:
            for span in (*operation.src_buff, *operation.dst_buff):
                parts = lcm(parts, share.tbg_size // gcd(share.tbg_size, span.size))
    return parts * (UNITS if is_loop else 1)


def _all(operations: tuple[MscclppOperation, ...]) -> Iterator[MscclppOperation]:
    for operation in operations:
        yield operation
        yield from operation.ops


def _channels(plan: MscclppPlan, rank: int) -> Iterator[PlanChannel]:
    """The channels of a rank, in the order of their ids; ids count for each type."""
    numbers: dict[tuple[str, int], int] = {}
    for entry in plan.gpus[rank].channels:
        for peer in entry.connected_to:
            if peer == rank or peer >= len(plan.gpus):
                raise Rejected(
                    f"rank {rank} has a {entry.channel_type} channel to rank {peer}, which is no other rank"
                )
            key = (entry.channel_type, peer)
            numbers[key] = numbers.get(key, -1) + 1
            yield PlanChannel(rank, peer, entry.channel_type, numbers[key])


def _switches(declared: list[list[Group]], rank: int) -> Iterator[Group]:
    """The switch channels of a rank. All ranks of one must have declared it."""
    for buffer, ranks in declared[rank]:
        if rank not in ranks or len(set(ranks)) < len(ranks):
            raise Rejected(
                f"rank {rank} has a switch channel of ranks {list(ranks)}: it must be among them, once"
            )
        for other in ranks:
            if other >= len(declared) or (buffer, ranks) not in declared[other]:
                raise Rejected(
                    f"rank {rank} has a switch channel of ranks {list(ranks)}, and rank {other} has none"
                )
        yield buffer, ranks


def _groups(gpu: MscclppGpu) -> Iterator[Group]:
    for entry in gpu.channels:
        if entry.channel_type == "switch":
            if entry.buffer_type is None:
                raise Rejected(f"rank {gpu.id} has a switch channel without buffer_type")
            for group in entry.rank_groups:
                yield entry.buffer_type, tuple(sorted(group.ranks))


def _ids(block: MscclppBlock, type_: str) -> list[int]:
    return [i for entry in block.channels if entry.channel_type == type_ for i in entry.channel_ids]


def _at(step: MscclppStep, what: str, all_: list[T], ids: list[int], index: int) -> T:
    """What a step means by an index into its thread block's ids."""
    if index >= len(ids):
        raise Rejected(f"{step} uses {what} {index}, and its thread block has {len(ids)}")
    if ids[index] >= len(all_):
        raise Rejected(f"{step} uses {what} {index}, number {ids[index]} of its rank, which has {len(all_)}")
    return all_[ids[index]]
