"""Execution plans of MSCCL++ for tests: writing them in few words, and reading them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules import mscclpp
from overlayccl_core.schedules.schedule import Schedule

Operation = dict[str, Any]
Data = dict[str, Any]
BUFFERS = "ios"


def local(buffer: str, index: int, size: int = 1) -> Operation:
    return {"type": buffer, "index": index, "size": size}


def remote(peer: int, buffer: str, index: int, size: int = 1) -> Operation:
    return {"peer": peer, "buffer": buffer, "index": index, "size": size}


def switch(index: int, size: int = 1) -> Operation:
    return {"switch_channel_id": 0, "index": index, "size": size}


def move(name: str, src: list[Operation], dst: list[Operation], **fields: Any) -> Operation:
    return {"name": name, "src_buff": src, "dst_buff": dst, "channel_type": "memory", **fields}


def sync(name: str, peers: list[int], over: str = "memory", **fields: Any) -> Operation:
    """An order on channels; `of`: the thread block whose channels they are."""
    return {"name": name, "peers": peers, "channel_type": over, **fields}


def semaphores(name: str, *ids: int) -> Operation:
    return {"name": name, "semaphore_ids": list(ids)}


def pipeline(*operations: Operation, chunks: int = 1) -> Operation:
    context = {"unit_size": 2**20, "num_chunks": chunks}
    return {"name": "pipeline", "iter_context": context, "ops": list(operations)}


NOP: Operation = {"name": "nop"}


def meet(peers: list[int], over: str = "memory", kind: str = "") -> list[Operation]:
    """All threads of the ranks' thread blocks of one number wait for each other."""
    return [NOP, sync(f"{kind}signal", peers, over), sync(f"{kind}wait", peers, over), NOP]


class Plan:
    """A plan being written: each thread block has channels of its own to all peers, and all remote buffers."""

    def __init__(self, collective: str, n: int, i: int, o: int, s: int = 0, **fields: Any) -> None:
        self.n, self.chunks, self.fields = n, (i, o, s), {"collective": collective, **fields}
        self.blocks: list[list[list[Operation]]] = [[] for _ in range(n)]
        self.semaphores: list[int] = []
        self.switch: str | None = None

    def peers(self, rank: int) -> list[int]:
        return [(rank + d) % self.n for d in range(1, self.n)]

    def block(self, rank: int, *operations: Operation) -> None:
        self.blocks[rank].append(list(operations))

    def data(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "name": "ours",
            "protocol": "Simple",
            "inplace": False,
            "gpus": [self._gpu(rank) for rank in range(self.n)],
            "num_threads_per_block": 1024,
            **self.fields,
        }

    def text(self) -> str:
        return json.dumps(self.data())

    def _gpu(self, rank: int) -> dict[str, Any]:
        i, o, s = self.chunks
        peers, blocks = self.peers(rank), self.blocks[rank]
        ways = ("memory", "port")
        channels: list[dict[str, Any]] = [
            {"channel_type": w, "connected_to": peers * len(blocks)} for w in ways
        ]
        if self.switch:
            group = {"size": self.n, "ranks": list(range(self.n))}
            channels.append({"channel_type": "switch", "buffer_type": self.switch, "rank_groups": [group]})
        ids = list(range(len(peers) * len(blocks)))
        return {
            "id": rank,
            "input_chunks": i,
            "output_chunks": o,
            "scratch_chunks": s,
            "threadblocks": [
                {
                    "id": number,
                    "ops": list(self._resolved(rank, number, operations)),
                    "channels": [
                        *({"channel_type": w, "channel_ids": ids} for w in ways),
                        {"channel_type": "switch", "channel_ids": [0] if self.switch else []},
                    ],
                    "remote_buffer_refs": [
                        {
                            "access_channel_type": w,
                            "remote_buffer_ids": list(range(len(peers) * len(BUFFERS))),
                        }
                        for w in ways
                    ],
                }
                for number, operations in enumerate(blocks)
            ],
            "channels": channels,
            "remote_buffers": [
                {"rank": p, "type": b, "access_channel_types": list(ways)} for p in peers for b in BUFFERS
            ],
            "semaphores": [{"init_value": free} for free in self.semaphores],
        }

    def _resolved(self, rank: int, number: int, operations: list[Operation]) -> Iterator[Operation]:
        peers = self.peers(rank)
        for operation in operations:
            made = {k: v for k, v in operation.items() if k not in ("peers", "of")}
            if "peers" in operation:
                first = operation.get("of", number) * len(peers)
                made["channel_ids"] = [first + peers.index(p) for p in operation["peers"]]
            for side in ("src_buff", "dst_buff"):
                if side in operation:
                    made[side] = [self._span(peers, span) for span in operation[side]]
            if "ops" in operation:
                made["ops"] = list(self._resolved(rank, number, operation["ops"]))
            yield made

    @staticmethod
    def _span(peers: list[int], span: Operation) -> Operation:
        if "peer" not in span:
            return span
        id_ = peers.index(span["peer"]) * len(BUFFERS) + BUFFERS.index(span["buffer"])
        return {"buffer_id": id_, "index": span["index"], "size": span["size"]}


def read(plan: Plan | Data | str, collective: str | None = None) -> Schedule:
    text = plan if isinstance(plan, str) else json.dumps(plan if isinstance(plan, dict) else plan.data())
    (schedule,) = mscclpp.read(text, collective)
    return schedule


def refusal(plan: Plan | Data | str) -> str:
    with pytest.raises(Rejected) as caught:
        read(plan)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def ops(plan: Data, rank: int = 0, block: int = 0) -> list[Data]:
    found: list[Data] = plan["gpus"][rank]["threadblocks"][block]["ops"]
    return found


def without(plan: Plan, name: str, *, rank: int = 0, block: int = 0, which: int = 0) -> Data:
    """The plan without the operation of that name (the `which`-th)."""
    data = plan.data()
    steps = ops(data, rank, block)
    del steps[[i for i, step in enumerate(steps) if step["name"] == name][which]]
    return data
