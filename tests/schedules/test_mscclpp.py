"""MSCCL++ plans: right ones give their collective; who does not wait for others is refused."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.schedules import reading
from overlayccl_core.schedules.schedule import Schedule, entry, program
from tests.schedules.plan_writing import (
    NOP,
    Data,
    Plan,
    local,
    meet,
    move,
    ops,
    pipeline,
    read,
    refusal,
    remote,
    semaphores,
    sync,
    without,
)
from tests.schedules.plans import RIGHT, packets


def outcome(schedule: Schedule) -> list[list[Any]]:
    """What each rank ends with, from distinct numbers; None: never written."""
    holds: dict[Any, Any] = {}
    for cells, row in zip(schedule.given, numbers(schedule), strict=True):
        holds |= dict(zip(cells, row, strict=True))
    for action in schedule.order:
        holds |= {effect.into: sum(holds[cell] for cell in effect.terms) for effect in action.effects}
    return [[holds.get(cell) for cell in cells] for cells in schedule.results]


def numbers(schedule: Schedule) -> list[list[int]]:
    random = np.random.default_rng(0)
    return [[int(x) for x in random.integers(1, 2**40, len(cells))] for cells in schedule.given]


def wanted(schedule: Schedule) -> list[list[int]]:
    given, n = numbers(schedule), schedule.ranks
    total = [sum(column) for column in zip(*given, strict=True)]
    each = len(total) // n
    match schedule.collective:
        case "all_reduce":
            return [total] * n
        case "all_gather":
            return [[x for row in given for x in row]] * n
        case "reduce_scatter":
            return [total[r * each : (r + 1) * each] for r in range(n)]
        case _:
            return [[x for row in given for x in row[r * each : (r + 1) * each]] for r in range(n)]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_plan_gives_its_collective(name: str, n: int) -> None:
    schedule = read(RIGHT[name](n))
    assert outcome(schedule) == wanted(schedule)


def verdict(schedule: Schedule) -> str:
    """`ok`, or why its Program is not proven."""
    n = schedule.ranks
    problem, fields = entry(schedule, 3 * schedule.chunks)
    case = catalog.case(problem, fields, ranks=n, ranks_per_node=n)
    made = program(schedule, catalog.build(case))
    return equivalence.prove(made, catalog.reference_program(made.problem)).reason.value


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_plan_is_proven(name: str) -> None:
    assert verdict(read(RIGHT[name](3))) == "ok"


@pytest.mark.parametrize("name", RIGHT)
def test_a_signal_or_a_wait_less_is_refused(name: str) -> None:
    whole = RIGHT[name](2).data()
    for rank, gpu in enumerate(whole["gpus"]):
        for block, walk in enumerate(gpu["threadblocks"]):
            for i, step in enumerate(walk["ops"]):
                if step["name"].endswith(("signal", "wait")):
                    plan = json.loads(json.dumps(whole))
                    del ops(plan, rank, block)[i]
                    assert "a deadlock" in refusal(plan) or "without its wait" in refusal(plan)


MEETS = ("gets", "puts", "ports", "rres", "rre", "glres", "gstore", "shares")


@pytest.mark.parametrize("name", MEETS)
@pytest.mark.parametrize("end", ["first", "last"])
def test_who_does_not_meet_the_others_races_with_a_caller(name: str, end: str) -> None:
    """Without the handshake, input may not be there yet, or output be handed on too early."""
    plan = RIGHT[name](2).data()
    for rank in range(2):
        for block in range(len(plan["gpus"][rank]["threadblocks"])):
            steps = ops(plan, rank, block)
            for kind in ("signal", "wait"):
                found = [i for i, step in enumerate(steps) if step["name"].endswith(kind)]
                del steps[found[0 if end == "first" else -1]]
    assert "a race" in refusal(plan)
    assert "the caller of rank" in refusal(plan)


@pytest.mark.parametrize(
    ("plan", "step"),
    [
        (lambda: without(RIGHT["gets"](2), "nop", which=1), "get"),
        (lambda: without(RIGHT["puts"](2), "nop", which=2), "put"),
        (lambda: without(RIGHT["re"](2), "nop", which=1), "re"),
        (lambda: without(RIGHT["ppkt over ports"](2), "nop"), "ppkt"),
        (lambda: without(RIGHT["semaphores"](2), "nop", block=1, which=1), "put"),
        (lambda: without(RIGHT["ports"](2), "flush"), "put"),
    ],
)
def test_a_missing_nop_or_flush_is_a_race(plan: Callable[[], Data], step: str) -> None:
    assert refusal(plan()).startswith("a race at chunk")
    assert f"({step})" in refusal(plan())


def test_the_same_threads_need_no_nop_others_do() -> None:
    def plan(second: Data) -> Plan:
        made = Plan("allreduce", 2, 2, 2, 2)
        for rank in range(2):
            peer = 1 - rank
            made.block(
                rank,
                move("put", [local("i", 0, 2)], [remote(peer, "s", 0, 2)]),
                *meet([peer]),
                move("re", [local("i", 0, 2), local("s", 0, 2)], [local("s", 0, 2)]),
                second,
            )
        return made

    same = read(plan(move("copy", [local("s", 0, 2)], [local("o", 0, 2)])))
    assert outcome(same) == wanted(same)
    shifted = refusal(plan(move("copy", [local("s", 1)], [local("o", 1)])))
    assert "a race at chunk 1 of scratch" in shifted


def test_ranks_that_wait_before_they_signal_are_a_deadlock() -> None:
    plan = Plan("allgather", 2, 1, 2)
    for rank in range(2):
        peers = plan.peers(rank)
        plan.block(rank, sync("wait", peers), NOP, sync("signal", peers))
    assert refusal(plan).startswith("a deadlock: rank 0, thread block 0")
    assert "step 0 (wait), which waits for rank 1, thread block 0, step 2 (signal)" in refusal(plan)


def test_a_packet_that_nobody_writes_is_a_deadlock() -> None:
    plan = packets(2).data()
    del ops(plan, rank=1)[0]
    assert refusal(plan).startswith("a deadlock: rank 0, thread block 0, step 1 (respkt) waits for packets")


def test_a_semaphore_that_nobody_releases_is_a_deadlock() -> None:
    message = refusal(without(RIGHT["semaphores"](2), "sem_release", rank=1))
    assert "a deadlock: rank 1, thread block 1, step 0 (sem_acquire)" in message
    assert "semaphore 0 of rank 1" in message


def test_a_barrier_is_for_as_many_thread_blocks_as_use_it() -> None:
    plan = RIGHT["barrier"](2).data()
    ops(plan, 0, 1)[0]["num_threadblocks"] = 3
    assert "it would end too early, or never" in refusal(plan)
    assert "a deadlock" in refusal(without(RIGHT["barrier"](2), "barrier", block=1))


def test_which_of_two_signals_came_is_not_known() -> None:
    """Two thread blocks signal on one channel, each behind its put: one wait is behind neither."""

    def plan(waits: int) -> Plan:
        made = Plan("allgather", 2, 2, 4, 2)
        for rank in range(2):
            peer = 1 - rank
            for half in range(2):
                done = [sync("wait", [peer], of=0) for _ in range(waits)] if half == 0 else []
                copies = [move("copy", [local("s", c)], [local("o", 2 * peer + c)]) for c in range(2)]
                rest = [sync("wait", [peer], of=0) for _ in range(2 - waits)]
                made.block(
                    rank,
                    move("copy", [local("i", half)], [local("o", 2 * rank + half)]),
                    move("put", [local("i", half)], [remote(peer, "s", half)]),
                    NOP,
                    sync("signal", [peer], of=0),
                    *done,
                    *([NOP, *copies, *rest] if half == 0 else []),
                )
        return made

    both = read(plan(2))
    assert outcome(both) == wanted(both)
    assert "a race at chunk" in refusal(plan(1))


def test_relaxed_signals_carry_no_data() -> None:
    plan = Plan("reducescatter", 2, 2, 1, 2)
    for rank in range(2):
        peer = 1 - rank
        put = move("put", [local("i", peer)], [remote(peer, "s", rank)])
        add = move("re", [local("i", rank), local("s", peer)], [local("o", 0)])
        plan.block(rank, put, *meet([peer], kind="rlx"), add)
    assert "relaxed signals or packets between: they order execution" in refusal(plan)


def test_a_packet_brings_no_other_data_along() -> None:
    plan = Plan("allgather", 2, 1, 2, 4, protocol="LL")
    for rank in range(2):
        peer = 1 - rank
        plan.block(
            rank,
            move("put", [local("i", 0)], [remote(peer, "s", 3)]),
            NOP,
            move("ppkt", [local("i", 0)], [remote(peer, "s", 0)]),
            move("upkt", [local("s", 0)], [local("o", peer)]),
            NOP,
            move("copy", [local("s", 3)], [local("o", peer)]),
        )
    assert "relaxed signals or packets between" in refusal(plan)


def test_packets_written_twice_tell_nothing() -> None:
    plan = packets(2).data()
    ops(plan)[0:1] *= 2
    assert "a race at chunk 0 of packets in scratch" in refusal(plan)


def test_threads_of_data_of_packets_and_of_ports_need_a_nop_between() -> None:
    def plan(*between: Data) -> Plan:
        made = Plan("allgather", 2, 1, 2, 2, protocol="LL")
        for rank in range(2):
            peer = 1 - rank
            made.block(
                rank,
                move("copy", [local("i", 0)], [local("o", rank)]),
                *between,
                move("ppkt", [local("o", rank)], [remote(peer, "s", 0)]),
                move("upkt", [local("s", 0)], [local("o", peer)]),
            )
        return made

    assert outcome(read(plan(NOP))) == wanted(read(plan(NOP)))
    assert "(copy) writes it, rank 0, thread block 0, step 1 (ppkt) reads it" in refusal(plan())
    data = RIGHT["ports"](2).data()
    ops(data).insert(4, move("re", [local("o", 0)] * 2, [local("o", 0)]))
    assert "step 4 (re) writes it, rank 0, thread block 0, step 5 (put) reads it" in refusal(data)


def test_a_signal_on_a_port_channel_is_behind_the_puts_of_its_thread() -> None:
    data = RIGHT["ports"](3).data()
    for rank in range(3):
        del ops(data, rank)[5]
        assert [step["name"] for step in ops(data, rank)[4:6]] == ["put", "signal"]
    assert outcome(read(data)) == wanted(read(data))
    ops(data)[5]["channel_ids"].reverse()
    assert "(put)" in refusal(data)


def test_the_writer_of_a_packet_is_not_known_if_there_are_two() -> None:
    plan = Plan("allgather", 3, 1, 3, 1, protocol="LL")
    put = move("ppkt", [local("i", 0)], [remote(2, "s", 0)])
    plan.block(0, sync("wait", [1]), NOP, put)
    plan.block(1, put, NOP, sync("signal", [0]))
    plan.block(2, move("upkt", [local("s", 0)], [local("o", 0)]))
    assert "a race at chunk 0 of packets in scratch of rank 2" in refusal(plan)


def test_packets_and_data_do_not_share_scratch() -> None:
    plan = packets(2).data()
    ops(plan, 0, 1).append(move("copy", [local("i", 0)], [local("s", 3)]))
    message = refusal(plan)
    assert "packets in scratch of rank 0, chunk 1" in message
    assert "step 1 (copy) has data" in message


def test_a_wrong_chunk_gives_another_outcome() -> None:
    plan = RIGHT["re"](2).data()
    ops(plan)[0]["src_buff"][0]["index"] = 0
    schedule = read(plan)
    assert outcome(schedule) != wanted(schedule)
    assert verdict(schedule) == "wrong_value"


def test_a_plan_is_known_by_its_first_character() -> None:
    (schedule,) = reading.read("\ufeff " + RIGHT["gets"](2).text())
    assert schedule.name == "ours"


def test_the_collective_may_be_named_by_hand() -> None:
    plan = RIGHT["gets"](2).data() | {"collective": "custom"}
    assert read(plan, "all_gather").collective == "all_gather"


def test_in_place_one_of_the_counts_may_be_left_out() -> None:
    plan = RIGHT["rres"](2).data()
    for gpu in plan["gpus"]:
        gpu["output_chunks"] = 0
    schedule = read(plan)
    assert outcome(schedule) == wanted(schedule)


def test_a_unit_stands_for_every_one_of_a_pipeline() -> None:
    """What a unit does too early is found: it signals before its copies are over."""
    plan = RIGHT["pipeline"](2).data()
    inner = ops(plan)[0]["ops"]
    del inner[[i for i, step in enumerate(inner) if step["name"] == "nop"][1]]
    assert "(copy in a pipeline, at unit 0)" in refusal(plan)
    nested = Plan("allgather", 2, 1, 2)
    for rank in range(2):
        nested.block(rank, pipeline(pipeline(NOP)))
    assert "is inside of another one" in refusal(nested)


def test_pipelines_are_in_balance_whatever_their_length() -> None:
    """Two units end well with what is free at first, or with what comes behind the loop; longer ones do not."""
    plan = RIGHT["pipeline"](2).data()
    del ops(plan, 0, 2)[0]["ops"][-1]
    assert "waits for more at semaphore 2 of rank 0 than comes in it" in refusal(plan)
    plan = RIGHT["pipeline"](2).data()
    ops(plan, 1, 2)[0]["iter_context"]["unit_size"] //= 2
    assert "pipelines of different unit_size (524288, 1048576) meet at" in refusal(plan)
    plan = RIGHT["pipeline"](2).data()
    wait = ops(plan, 0, 2)[0]["ops"].pop(1)
    ops(plan, 0, 2).extend([wait, wait])
    assert "each unit of a pipeline leaves some on memory channel 1 from rank 1 to rank 0" in refusal(plan)


def test_semaphores_count_what_is_free_at_first() -> None:
    def plan(free: int) -> Plan:
        made = Plan("allgather", 2, 1, 2)
        made.semaphores = [free]
        for rank in range(2):
            made.block(rank, semaphores("sem_acquire", 0), *RIGHT["gets"](2).blocks[rank][0])
        return made

    assert outcome(read(plan(1))) == wanted(read(plan(1)))
    assert "for number 1 on semaphore 0 of rank 0, and there are 0" in refusal(plan(0))
