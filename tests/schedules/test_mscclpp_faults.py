"""MSCCL++ plans with a planted fault, and what is no plan: refused in one line, with the place."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.schedules.plan_writing import Data, local, ops, refusal
from tests.schedules.plans import RIGHT


def wrong(name: str, change: Callable[[Data], Any]) -> Callable[[], Data]:
    def made() -> Data:
        plan = RIGHT[name](2).data()
        change(plan)
        return plan

    return made


FAULTS: dict[str, tuple[Callable[[], Data], str]] = {
    "chunk out of its buffer": (
        wrong("puts", lambda p: ops(p)[5]["src_buff"][0].update(index=2)),
        "rank 0, thread block 0, step 5 (put) uses chunk 2 of input of rank 0, which has 2",
    ),
    "chunk out of a remote buffer": (
        wrong("puts", lambda p: ops(p, 1)[5]["dst_buff"][0].update(index=7)),
        "rank 1, thread block 0, step 5 (put) uses chunk 7 of output of rank 0, which has 2",
    ),
    "operation": (
        wrong("puts", lambda p: ops(p)[4].update(name="cpy")),
        "rank 0, thread block 0, step 4 (cpy): 'cpy' is none of the operations copy, get",
    ),
    "channel": (
        wrong("puts", lambda p: ops(p)[1].update(channel_ids=[1])),
        "rank 0, thread block 0, step 1 (signal) uses memory channel 1, and its thread block has 1",
    ),
    "channel of the rank": (
        wrong("puts", lambda p: p["gpus"][0]["channels"][0].update(connected_to=[])),
        "step 1 (signal) uses memory channel 0, number 0 of its rank, which has 0",
    ),
    "remote buffer": (
        wrong("puts", lambda p: ops(p)[5]["dst_buff"][0].update(buffer_id=9)),
        "step 5 (put) uses remote buffer for memory channels 9, and its thread block has 3",
    ),
    "remote buffer over a channel": (
        wrong("puts", lambda p: p["gpus"][0]["remote_buffers"][1].update(access_channel_types=["port"])),
        "reaches a remote buffer over a memory channel, which is none of its own",
    ),
    "rank of a channel": (
        wrong("puts", lambda p: p["gpus"][0]["channels"][0].update(connected_to=[2])),
        "rank 0 has a memory channel to rank 2",
    ),
    "semaphore": (
        wrong("semaphores", lambda p: ops(p, 1, 1)[0].update(semaphore_ids=[2])),
        "rank 1, thread block 1, step 0 (sem_acquire) uses semaphore 2, and its rank has 2",
    ),
    "switch": (
        wrong("glres", lambda p: p["gpus"][1]["channels"].pop()),
        "rank 0 has a switch channel of ranks [0, 1], and rank 1 has none",
    ),
    "share": (
        wrong("shares", lambda p: ops(p, 0, 1)[4]["tbg_info"].update(tb_id=3)),
        "rank 0, thread block 1, step 4 (rres) is share 3 of 3",
    ),
    "sizes": (
        wrong("pws", lambda p: ops(p)[4]["src_buff"][0].update(size=1)),
        "step 4 (pws) has spans of different sizes",
    ),
    "spans": (
        wrong("puts", lambda p: ops(p)[4]["src_buff"].append(local("i", 0))),
        "step 4 (copy) has 2 spans where it takes a buffer of its rank",
    ),
    "pairs": (
        wrong("puts", lambda p: ops(p)[5]["src_buff"].append(local("i", 0))),
        "step 5 (put) has 2 src_buff and 1 dst_buff",
    ),
    "kind of span": (
        wrong(
            "puts", lambda p: ops(p)[4]["src_buff"].__setitem__(0, {"buffer_id": 0, "index": 0, "size": 1})
        ),
        "step 4 (copy) takes a buffer of its rank, and a span of it has no type",
    ),
    "packets elsewhere": (
        wrong("respkt", lambda p: ops(p)[1]["src_buff"][1].update(type="o")),
        "step 1 (respkt) takes packets in its rank's scratch, and a span of it is of output",
    ),
    "packets without room": (
        wrong("respkt", lambda p: p.update(protocol="Simple")),
        "if protocol is LL only",
    ),
    "reduction": (
        wrong("rres", lambda p: ops(p)[4].update(reduce_op="max")),
        "step 4 (rres) reduces by 'max'",
    ),
    "pws over memory": (
        wrong("pws", lambda p: ops(p)[4].update(channel_type="memory")),
        "step 4 (pws) goes over port channels",
    ),
    "get over ports": (
        wrong("gets", lambda p: ops(p)[5].update(channel_type="port")),
        "step 5 (get) goes over memory channels",
    ),
    "put over a channel to somebody else": (
        lambda: _misdirected(),
        "puts to rank 1 over the port channel 0 from rank 0 to rank 2",
    ),
    "pipeline": (
        wrong("pipeline", lambda p: ops(p)[0]["ops"][2]["src_buff"][0].update(index=0, size=2)),
        "works on 2 chunks, and its pipeline ends after 1",
    ),
    "pipeline without a loop": (
        wrong("pipeline", lambda p: ops(p)[0].pop("iter_context")),
        "rank 0, thread block 0, step 0 (pipeline) has no iter_context",
    ),
    "counts": (
        wrong("gets", lambda p: p["gpus"][1].update(output_chunks=3)),
        "rank 1 has 1 chunks of input and 3 of output, where all_gather of 2 ranks has 1 and 2",
    ),
    "collective": (
        wrong("gets", lambda p: p.update(collective="broadcast")),
        "its collective is 'broadcast', none of allreduce, allgather, reducescatter, alltoall",
    ),
    "missing field": (
        wrong("puts", lambda p: ops(p)[4]["src_buff"][0].pop("index")),
        "rank 0, thread block 0, step 4, src_buff 0, index: must be there",
    ),
    "type of a field": (
        wrong("puts", lambda p: ops(p, 1)[4]["src_buff"][0].update(index="0")),
        "rank 1, thread block 0, step 4, src_buff 0, index: Input should be a valid integer (got '0')",
    ),
    "index below 0": (
        wrong("puts", lambda p: ops(p)[4]["src_buff"][0].update(index=-1)),
        "step 4, src_buff 0, index: Input should be greater than or equal to 0 (got -1)",
    ),
    "too many chunks": (
        wrong("puts", lambda p: [gpu.update(input_chunks=2**20, output_chunks=2**20) for gpu in p["gpus"]]),
        "they are not read",
    ),
    "order of ranks": (wrong("puts", lambda p: p["gpus"].reverse()), "rank 0: its id is 1"),
    "one rank": (wrong("puts", lambda p: p["gpus"].pop()), "gpus has 1 ranks"),
}


def _misdirected() -> Data:
    plan = RIGHT["pws"](3).data()
    ops(plan)[4]["channel_ids"].reverse()
    return plan


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_with_its_place(fault: str) -> None:
    plan, said = FAULTS[fault]
    assert said in refusal(plan())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1, 2]", "an execution plan of MSCCL++"),
        ('{"name": 1}', "name: Input should be a valid string"),
        ('{"gpus": ' + "[" * 100_000, "not JSON"),
        ('{"gpus": ' + '{"gpus": ' * 100_000, "not JSON"),
        ('{"gpus": [' + '{"id": 0},' * 10**6, "1000001 objects of JSON in 10000010 characters are more than"),
        ('{"name": "' + "a" * 10**8 + '"}', "1 objects of JSON in 100000012 characters are more than"),
        ('{"name": "a", "x": ' + "9" * 10_000 + "}", "not JSON: number out of range"),
        ('{"name": "\udfff"}', "collective: must be there"),
        (
            '{"name": "a", "collective": "allreduce", "protocol": "LL", "inplace": true, '
            '"gpus": [{"id": 0, "inputChunks": 4}]}',
            "rank 0, input_chunks: must be there: a plan of the older layout",
        ),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(text: str, said: str) -> None:
    assert said in refusal(text)
    assert len(refusal(text)) < 300
