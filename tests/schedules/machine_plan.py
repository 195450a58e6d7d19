"""MSCCL++ execution plans (JSON), loaded for the simulated machine: the cells that each operation reads and writes.

Facts, of microsoft/mscclpp's src/executor/execution_plan.cc and src/executor/executor.cc:

- An id in an operation counts the channels, or buffers, that its thread block has of that kind of channel; those
  ids count the rank's. The k-th channel of a kind from one rank to another is paired with the k-th one back.
- Blocks of a group (tbg_info) have parts of an operation, one after the other. A pipeline runs its operations piece
  by piece: here each chunk has two pieces.
- Packets lie in scratch alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Any, TypeVar

from tests.schedules.machine_memory import Collective, Memory
from tests.schedules.machine_order import Broken

THREADS = 2  # of a block
PIECES = 2  # of a chunk in a pipeline

PAIRWISE = frozenset(
    {"put", "pws", "pwsf", "get", "ppkt", "rppkt"}
)  # the n-th source goes to the n-th destination
PACKETS_IN = {
    "rppkt": 0,
    "upkt": 0,
    "respkt": 1,
    "repkt": 1,
    "recspkt": 1,
    "recpkt": 1,
}  # sources from here on
PACKETS_OUT = {"ppkt": 0, "rppkt": 0, "cpkt": 0, "respkt": 1, "repkt": 1, "recspkt": 1, "recpkt": 1}
PLAIN = frozenset({"copy", "put", "pws", "pwsf", "get", "re", "res", "rre", "rres", "glres"})
MOVES = PLAIN | PACKETS_IN.keys() | PACKETS_OUT.keys()
SIGNALS = frozenset({"signal", "rlxsignal"})
WAITS = frozenset({"wait", "rlxwait"})
ON_CHANNELS = SIGNALS | WAITS | {"flush"}

Json = dict[str, Any]
Channel = tuple[str, int, int, int]  # kind, from rank, to rank, the how manyth between them
_T = TypeVar("_T")


@dataclass(eq=False, slots=True)
class Move:
    """The sum of the sources' cells into each destination, for `count` cells from their places on."""

    count: int
    sources: list[tuple[list[int], int]] = field(default_factory=list)
    into: list[tuple[list[int], int]] = field(default_factory=list)
    packets: list[tuple[int, list[int | None], int]] = field(default_factory=list)  # with their rank
    packets_into: list[tuple[int, list[int | None], int]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Operation:
    """One that a block runs. Of two with the same `units` a thread has the same cells, counted from their first."""

    name: str
    kind: str
    units: str
    moves: list[Move] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # semaphores, or a barrier and its blocks
    by_proxy: bool = False


class Plan:
    """A plan in its beginning: `blocks` are the operations of each thread block, for each rank."""

    def __init__(self, plan: Json, collective: str | None) -> None:
        self._gpus = plan["gpus"]
        if [gpu["id"] for gpu in self._gpus] != list(range(len(self._gpus))):
            raise Broken(
                f"gpus {[gpu['id'] for gpu in self._gpus]}: they stand in the order of their ids, from 0"
            )
        groups = {op["tbg_info"]["tbg_size"] for op in _operations(self._gpus) if "tbg_info" in op}
        self._parts = THREADS * PIECES * lcm(*groups)
        keys = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
        declared = [{buffer: gpu[key] for buffer, key in keys.items()} for gpu in self._gpus]
        chunks = max(max(sizes["i"], sizes["o"]) for sizes in declared)
        whole = Collective((collective or plan["collective"]).replace("_", ""), len(self._gpus), chunks)
        self.memory = Memory(whole, declared, in_place=plan["inplace"], parts=self._parts)
        self.semaphores = [[one["init_value"] for one in gpu.get("semaphores", ())] for gpu in self._gpus]
        self.channels = [_channels(rank, gpu) for rank, gpu in enumerate(self._gpus)]
        self.blocks = [
            [self._block(rank, number, block) for number, block in enumerate(gpu["threadblocks"])]
            for rank, gpu in enumerate(self._gpus)
        ]

    def _block(self, rank: int, number: int, block: Json) -> list[Operation]:
        where = f"rank {rank}, thread block {number}"
        if block["id"] != number:
            raise Broken(f"{where} has the id {block['id']}")
        made = []
        for at, op in enumerate(block["ops"]):
            name = f"operation {at} ({op['name']})"
            if op["name"] != "pipeline":
                made.append(self._operation(where, name, rank, block, op, None))
                continue
            for piece in range(op["iter_context"]["num_chunks"] * PIECES):
                for inner in op["ops"]:
                    within = f"{name}, piece {piece} ({inner['name']})"
                    made.append(self._operation(where, within, rank, block, inner, piece))
        return made

    def _operation(
        self, where: str, name: str, rank: int, block: Json, op: Json, piece: int | None
    ) -> Operation:
        packets = op["name"] in PACKETS_IN or op["name"] in PACKETS_OUT
        units = "packets" if packets else "words" if op["name"] == "glres" else "vectors"
        made = Operation(name, op["name"], units)
        kind, where = op.get("channel_type", "none"), f"{where}, {name}"
        made.by_proxy = kind == "port"
        if made.kind in MOVES:
            for sources, into in _ends(where, op):
                made.moves.append(self._move(where, rank, block, op, sources, into, piece))
        elif made.kind == "barrier":
            made.numbers = [op["barrier_id"], op["num_threadblocks"]]
        elif made.kind in ("sem_acquire", "sem_release"):
            made.numbers = op["semaphore_ids"]
            for one in made.numbers:
                _at(where, "semaphore", self.semaphores[rank], one)
        elif made.kind not in ON_CHANNELS | {"nop"}:
            raise Broken(f"{where}: there is no such operation")
        if made.kind in ON_CHANNELS or (made.kind in MOVES and made.by_proxy):
            mine = _of_kind(block["channels"], "channel_type", kind, "channel_ids")
            ids = [_at(where, "channel", mine, one) for one in op["channel_ids"]]
            made.channels = [_at(where, "channel", self.channels[rank].get(kind, ()), one) for one in ids]
            if len(made.channels) < len(made.moves):
                raise Broken(f"{where}: {len(made.channels)} channels for {len(made.moves)} puts")
        return made

    def _move(
        self,
        where: str,
        rank: int,
        block: Json,
        op: Json,
        sources: list[Json],
        into: list[Json],
        piece: int | None,
    ) -> Move:
        size = sources[0]["size"]
        if any(one["size"] != size for one in (*sources, *into)):
            raise Broken(f"{where}: sizes {[one['size'] for one in (*sources, *into)]}")
        group = op.get("tbg_info", {"tb_id": 0, "tbg_size": 1})
        begin, end = (size * self._parts * (group["tb_id"] + n) // group["tbg_size"] for n in (0, 1))
        if piece is not None:
            unit = self._parts // PIECES
            begin, end = min(begin + piece * unit, end), min(begin + (piece + 1) * unit, end)
        in_packets = (
            op["name"] == "ppkt" and op.get("channel_type") == "port"
        )  # its source lies in packets already
        made = Move(end - begin)
        for refs, plain, packets, first in (
            (
                sources,
                made.sources,
                made.packets,
                0 if in_packets else PACKETS_IN.get(op["name"], len(sources)),
            ),
            (into, made.into, made.packets_into, PACKETS_OUT.get(op["name"], len(into))),
        ):
            for at, ref in enumerate(refs):
                for owner, buffer in self._owners(where, rank, block, op, ref):
                    if at < first:
                        cells, place = self.memory.place(owner, buffer, ref["index"], size, where)
                        plain.append((cells, place + begin))
                    else:
                        held, place = self.memory.packets(owner, buffer, ref["index"], size, where)
                        packets.append((owner, held, place + begin))
        return made

    def _owners(self, where: str, rank: int, block: Json, op: Json, ref: Json) -> list[tuple[int, str]]:
        """(rank, buffer) that a reference means: its own, one of another rank, or those behind a switch."""
        gpu = self._gpus[rank]
        if "buffer_id" in ref:
            kind = op.get("channel_type", "none")
            mine = _of_kind(
                block.get("remote_buffer_refs", ()), "access_channel_type", kind, "remote_buffer_ids"
            )
            own = _at(where, "buffer", mine, ref["buffer_id"])
            remote = _at(where, "buffer", gpu["remote_buffers"], own)
            return [(remote["rank"], remote["type"])]
        if "switch_channel_id" in ref:
            mine = _of_kind(block["channels"], "channel_type", "switch", "channel_ids")
            switches = [one for one in gpu["channels"] if one["channel_type"] == "switch"]
            groups = [
                (one["buffer_type"], group["ranks"]) for one in switches for group in one["rank_groups"]
            ]
            buffer, ranks = _at(where, "switch", groups, _at(where, "switch", mine, ref["switch_channel_id"]))
            return [(one, buffer) for one in ranks]
        return [(rank, ref["type"])]


def _operations(gpus: list[Json]) -> Iterator[Json]:
    for gpu in gpus:
        for block in gpu["threadblocks"]:
            for op in block["ops"]:
                yield from (op, *op.get("ops", ()))


def _channels(rank: int, gpu: Json) -> dict[str, list[Channel]]:
    """The channels of each kind, in the order of the file: ids count them."""
    made: dict[str, list[Channel]] = {"memory": [], "port": []}
    for channel in gpu["channels"]:
        for peer in channel.get("connected_to", ()):
            mine = made[channel["channel_type"]]
            mine.append((channel["channel_type"], rank, peer, sum(one[2] == peer for one in mine)))
    return made


def _ends(where: str, op: Json) -> list[tuple[list[Json], list[Json]]]:
    """(sources, destinations) of each move of an operation."""
    sources, into = op["src_buff"], op["dst_buff"]
    if not sources or not into or (op["name"] in PAIRWISE and len(sources) != len(into)):
        raise Broken(f"{where}: {len(sources)} sources and {len(into)} destinations")
    if op.get("reduce_op", "sum") != "sum":
        raise Broken(f"{where}: the machine adds, and knows no {op['reduce_op']!r}")
    if op["name"] in PAIRWISE:
        return [([one], [other]) for one, other in zip(sources, into, strict=True)]
    return [(sources, into)]


def _of_kind(groups: Sequence[Json], key: str, kind: str, ids: str) -> list[int]:
    return [one for group in groups if group[key] == kind for one in group[ids]]


def _at(where: str, what: str, known: Sequence[_T], index: int) -> _T:
    if not 0 <= index < len(known):
        raise Broken(f"{where}: {what} {index} of {len(known)}")
    return known[index]
