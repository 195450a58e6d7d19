"""The simulated machine: right schedules are right in every order tried, planted faults are found in some."""

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.schedules import small_schedules as small
from tests.schedules.machine import Broken, Fault, Stuck, Wrong, run

ORDERS = 12
RIGHT = {
    "ring of 2": small.ring(2),
    "ring of 4": small.ring(4),
    "all pairs of 2": small.all_pairs(2),
    "all pairs of 4": small.all_pairs(4),
    "hierarchical": small.hierarchical(),
    "all_to_all": small.all_to_all(4),
    "all_gather": small.all_gather(3),
    "reduce_scatter": small.reduce_scatter(3, in_place=False),
    "reduce_scatter in place": small.reduce_scatter(3, in_place=True),
    "put and added": small.put_and_added(),
    "in packets": small.in_packets(),
}


def found(text: str, orders: int = ORDERS, **more: int) -> list[Fault]:
    """What the machine says of the first so many orders."""
    faults = []
    for seed in range(orders):
        try:
            run(text, seed=seed, **more)
        except Fault as fault:
            faults.append(fault)
    return faults


def changed(text: str, old: str, new: str, times: int = 1) -> str:
    """The text with `old` at its first place, which must be there, as `new`."""
    assert text.count(old) >= times
    return text.replace(old, new, times)


def step(line: str, at: int) -> str:
    """A step as small_schedules writes it."""
    return small._step(at, line)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_schedule_is_right_in_every_order(name: str) -> None:
    assert found(RIGHT[name]) == []


@pytest.mark.parametrize("name", ["all pairs of 4", "hierarchical"])
def test_a_connection_needs_one_slot_in_two_directions_and_two_in_a_ring(name: str) -> None:
    assert found(RIGHT[name], slots=1) == []
    assert (
        isinstance(found(small.ring(4), orders=1, slots=1)[0], Stuck) and found(small.ring(4), slots=2) == []
    )


def test_a_seed_is_one_order() -> None:
    racy = changed(small.all_pairs(4), step("re s0 i0 <0.1", 0), step("re s0 i0", 0))
    assert [str(fault) for fault in found(racy)] == [str(fault) for fault in found(racy)]


def test_the_collective_may_be_named_anew() -> None:
    run(small.ring(2).replace('"allreduce"', '"custom"'), seed=0, collective="all_reduce")
    with pytest.raises(Wrong):
        run(small.ring(2), seed=0, collective="all_to_all")


def test_all_to_next_wants_nothing_of_the_first_rank() -> None:
    blocks = [[(1, -1, 0, ["s i0"])], [(2, 0, 0, ["s i0", "r o0"])], [(-1, 1, 0, ["r o0"])]]
    run(small.xml("alltonext", blocks, 1, in_place=False), seed=0)


def test_a_wrong_result_names_rank_chunk_expected_and_got() -> None:
    broken = small.ring(4).replace(step("rrcs i1 i1", 3), step("rrcs i2 i1", 3))  # on rank 0
    assert broken != small.ring(4)
    (wrong,) = found(broken, orders=1)
    assert isinstance(wrong, Wrong)
    assert (wrong.rank, wrong.chunk) == (0, 1)
    assert wrong.expected == "chunk 1 of ranks 0-3"
    assert wrong.got == "chunk 1 of ranks 1-3 + chunk 2 of rank 0"


def test_what_nobody_wrote_is_named() -> None:
    left_out = changed(small.all_to_all(2), step("cpy i0 o0", 0), step("cpy i0 o0 x0", 0))
    assert "got what nobody wrote" in str(found(left_out, orders=1)[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("re s0 i0 <0.1", "re s0 i0"),  # a dependency dropped: added before it is there
        ("s i0 <3.2", "s i0"),  # sent before it is added up
    ],
)
def test_a_race_shows_in_some_order(old: str, new: str) -> None:
    at = 0 if old.startswith("re") else 2
    faults = found(changed(small.all_pairs(4), step(old, at), step(new, at)))
    assert faults and all(isinstance(fault, Wrong | Broken) for fault in faults)


def test_a_copy_onto_itself_shifted_by_one_has_no_order() -> None:
    steps = ["cpy i0 s1 x2", "cpy s1 s0 x2", "cpy s0 o0 x2"]
    faults = found(small.xml("allreduce", [[(-1, -1, 0, steps)]], 2, scratch=3, in_place=False), orders=40)
    assert 0 < len(faults) < 40


def test_an_addition_made_a_copy_is_wrong() -> None:
    assert isinstance(found(changed(small.hierarchical(), 'type="rrc"', 'type="r"'), orders=1)[0], Wrong)


def test_two_receives_exchanged_are_wrong() -> None:
    one, other = step("rcs o2", 1), step("r o1", 2)  # of rank 0
    swapped = changed(small.all_gather(3), one + other, step("rcs o1", 1) + step("r o2", 2))
    assert isinstance(found(swapped, orders=1)[0], Wrong)


def test_receiving_before_sending_is_stuck_all_around() -> None:
    text = small.ring(3)
    for rank in range(3):
        first, second = step(f"s i{rank} i{rank}", 0), step(f"rrs i{(rank - 1) % 3} i{(rank - 1) % 3}", 1)
        sent, came = first.replace('s="0"', 's="1"'), second.replace('s="1"', 's="0"')
        text = changed(text, first + second, came + sent)
    (stuck,) = found(text, orders=1)
    assert isinstance(stuck, Stuck)
    assert str(stuck).startswith(
        "rank 0, thread block 0, step 0 (rrs), waits for a message of rank 2 to rank 0"
    )


def test_who_is_waited_for_must_say_that_it_is_done() -> None:
    silent = changed(small.hierarchical(), step("r i1 !", 3), step("r i1", 3))
    (stuck,) = found(silent, orders=1)
    assert isinstance(stuck, Stuck) and "thread block 1 of rank 0" in str(stuck)


def test_a_later_step_speaks_for_the_earlier() -> None:
    steps = [["cpy i0 s0", "cpy i0 o0 !"], ["cpy s0 s1 <0.0"]]
    blocks = [[(-1, -1, 0, lines) for lines in steps]]
    assert found(small.xml("allreduce", blocks, 1, scratch=2, in_place=False)) == []


def test_more_messages_than_slots_are_stuck() -> None:
    eager = [[(1 - r, 1 - r, 0, ["s i0", "s i1", "s i2", "r o0", "r o1", "r o2"])] for r in range(2)]
    text = small.xml("alltonext", eager, 3, in_place=False)
    assert found(text, slots=3) == []
    assert all(isinstance(fault, Stuck) for fault in found(text, slots=2)) and found(text, slots=2)


def test_a_message_of_two_chunks_is_not_two_of_one() -> None:
    blocks = [[(1, -1, 0, ["s i0 x2"])], [(-1, 0, 0, ["r o0", "r o1"])]]
    text = small.xml("alltonext", blocks, 2, in_place=False)
    assert all("takes 1 chunks, and 2 came" in str(fault) for fault in found(text)) and found(text)
    assert found(text, message=1) == []


def test_a_step_longer_than_a_message_needs_more_slots() -> None:
    eager = [[(1 - r, 1 - r, 0, ["s i0 x3", "r o0 x3"])] for r in range(2)]
    text = small.xml("alltonext", eager, 3, in_place=False)
    assert found(text) == []
    assert isinstance(found(text, orders=1, message=1)[0], Stuck)


def test_a_nop_waits_before_the_next_operation() -> None:
    text = small.all_pairs(3).replace(step("re s0 i0 <0.1", 0), step("nop <0.1", 0))
    text = changed(text, step("re s1 i0 <1.1 !", 1), step("re s0 i0 <1.1", 1) + step("re s1 i0 !", 2))
    text = text.replace('depid="2" deps="1"', 'depid="2" deps="2"', 2)  # of rank 0
    assert found(text) == []


def test_a_nop_without_a_dependency_is_not_counted() -> None:
    steps = [["nop", "cpy i0 o0 !"], ["cpy o0 s0 <0.1"]]
    blocks = [[(-1, -1, 0, lines) for lines in steps]]
    (stuck,) = found(small.xml("allreduce", blocks, 1, scratch=1, in_place=False), orders=1)
    assert isinstance(stuck, Stuck)


def test_additions_in_a_row_are_one() -> None:
    """So a nop between them waits too late."""
    first = ["re s0 i0 <0.1", "nop <1.1", "re s1 i0 !"]
    text = changed(
        small.all_pairs(3),
        step("re s0 i0 <0.1", 0) + step("re s1 i0 <1.1 !", 1),
        "".join(step(line, at) for at, line in enumerate(first)),
    )
    assert any(isinstance(fault, Wrong) for fault in found(text, orders=40))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('srcoff="3"', 'srcoff="4"', "chunks 4 to 4 of buffer i, which has 4"),
        ('type="rrcs"', 'type="rsc"', "there is no such operation"),
        ('send="1"', 'send="0"', "sends from rank 0 to rank 0"),
        ('send="1"', 'send="7"', "sends from rank 0 to rank 7, of 4"),
        ('depid="-1"', 'depid="5"', "of thread block 5, of 1"),
        ('<step s="0"', '<step s="1"', "is numbered 1"),
        ('cnt="1"', 'cnt="one"', "cnt='one' is no integer"),
        ('ngpus="4"', 'ngpus="5"', "4 gpus, but ngpus=5"),
        ('coll="allreduce"', 'coll="broadcast"', "knows no collective 'broadcast'"),
        ('inplace="1"', 'inplace="0"', "neither inplace nor outofplace"),
        ("</algo>", "", "no XML"),
    ],
)
def test_what_no_runtime_runs_is_broken(old: str, new: str, said: str) -> None:
    with pytest.raises(Broken, match=said):
        run(changed(small.ring(4), old, new), seed=0)


def test_a_message_that_nobody_takes_is_broken() -> None:
    text = small.ring(2).replace("</tb></gpu></algo>", step("s i0", 3) + "</tb></gpu></algo>")
    with pytest.raises(Broken, match="rank 0 does not receive what rank 1 sent on channel 0"):
        run(text, seed=0)


def test_one_thread_block_has_an_end_of_a_connection() -> None:
    twice = [[(1, -1, 0, ["s i0"]), (1, -1, 0, ["s i1"])], [(-1, 0, 0, ["r o0", "r o1"])]]
    with pytest.raises(Broken, match="another does, too"):
        run(small.xml("alltonext", twice, 2, in_place=False), seed=0)


Edit = Callable[[list[dict[str, object]]], object]


def edited(text: str, edit: Edit, rank: int = 0, block: int = 0) -> str:
    """A plan whose thread block has other operations."""
    whole = json.loads(text)
    edit(whole["gpus"][rank]["threadblocks"][block]["ops"])
    return json.dumps(whole)


@pytest.mark.parametrize(
    "at",
    [1, 4, 6],  # before the signal; after the wait; before the second signal
)
def test_threads_of_a_block_are_in_step_at_a_nop_alone(at: int) -> None:
    faults = found(edited(small.put_and_added(), lambda ops: ops.pop(at)), orders=60)
    assert faults and all(isinstance(fault, Wrong | Broken) for fault in faults)


def test_a_signal_left_out_is_stuck() -> None:
    faults = found(edited(small.put_and_added(), lambda ops: ops.pop(2)))
    assert len(faults) == ORDERS and all(isinstance(fault, Stuck | Wrong) for fault in faults)


def test_a_wait_left_out_is_found() -> None:
    faults = found(edited(small.put_and_added(), lambda ops: ops.pop(3)), orders=40)
    assert len(faults) == 40 and {type(fault) for fault in faults} <= {Wrong, Broken}


def test_who_reads_a_packet_waits_for_it() -> None:
    (stuck,) = found(edited(small.in_packets(), lambda ops: ops.pop(0)), orders=1)
    assert isinstance(stuck, Stuck) and "a packet in cell" in str(stuck)


def test_packets_lie_in_scratch() -> None:
    elsewhere = edited(small.in_packets(), lambda ops: ops.__setitem__(0, small.op("ppkt", ["i1"], ["@i0"])))
    with pytest.raises(Broken, match="packets lie in scratch, not in 'i'"):
        run(elsewhere, seed=0)


def alone(operations: list[list[object]], chunks: int) -> str:
    """A plan of one rank, out of place: its output is to be its input."""
    whole = json.loads(small.plan("allreduce", [operations, operations], (chunks, chunks, chunks)))
    return json.dumps({**whole, "gpus": whole["gpus"][:1], "inplace": False})


def test_blocks_of_a_group_share_an_operation() -> None:
    parts = [
        {**small.op("copy", ["i0x3"], ["s0x3"]), "tbg_info": {"tb_id": n, "tbg_size": 2}} for n in (0, 1)
    ]
    together = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    back = small.op("copy", ["s0x3"], ["o0x3"])
    assert found(alone([[parts[0], together, back], [parts[1], together]], 3)) == []
    assert all(
        isinstance(fault, Wrong) for fault in found(alone([[together, back], [parts[1], together]], 3))
    )
    assert found(alone([[parts[0], back], [parts[1]]], 3)) != []


def test_a_pipeline_does_all_of_its_pieces() -> None:
    inner = [small.op("copy", ["i0x2"], ["s0x2"]), {"name": "nop"}, small.op("copy", ["s0x2"], ["o0x2"])]
    for pieces, right in ((2, True), (1, False)):
        ops = {"name": "pipeline", "iter_context": {"unit_size": 1, "num_chunks": pieces}, "ops": inner}
        assert (found(alone([[ops]], 2)) == []) is right


def test_a_switch_adds_what_all_its_ranks_have_once_they_have_begun() -> None:
    there = {"switch_channel_id": 0, "size": 1}
    met = ["signal", "wait", "nop"]
    whole = json.loads(small.plan("allreduce", [[[*met, *met]]] * 2, (2, 2, 0)))
    for rank, gpu in enumerate(whole["gpus"]):
        group = {"size": 2, "ranks": [0, 1]}
        gpu["channels"].append({"channel_type": "switch", "buffer_type": "i", "rank_groups": [group]})
        (block,) = gpu["threadblocks"]
        block["channels"].append({"channel_type": "switch", "channel_ids": [0]})
        moved = {"src_buff": [{**there, "index": rank}], "dst_buff": [{**there, "index": rank}]}
        glres = {"name": "glres", "channel_type": "switch", "reduce_op": "sum", **moved}
        block["ops"][3:3] = [glres, {"name": "nop"}]
    text = json.dumps(whole)
    assert found(text) == []
    for rank in range(2):
        text = edited(text, lambda ops: ops.__delitem__(slice(0, 3)), rank=rank)
    assert any("what nobody wrote" in str(fault) for fault in found(text))


@pytest.mark.parametrize(("second", "right"), [("copy", True), ("cpkt", False)])
def test_a_thread_has_the_same_cells_of_two_operations_alike(second: str, right: bool) -> None:
    """Vectors, and vectors or packets; so a nop may be missing between the first two alone."""
    back = (
        [small.op("upkt", ["s1"], ["o0"])] if second == "cpkt" else ["nop", small.op("copy", ["s1"], ["o0"])]
    )
    ops = [small.op("copy", ["i0"], ["s0"]), small.op(second, ["s0"], ["s1"]), *back]
    chunks = json.loads(alone([ops], 1))
    chunks["gpus"][0]["scratch_chunks"] = 2
    assert (found(json.dumps(chunks), orders=40) == []) is right


def test_a_put_through_a_proxy_has_read_its_source_after_a_flush_alone() -> None:
    put = small.op("put", ["i0"], ["@o0"])
    faults = {}
    for name, ops in {
        "flushed": [put, "signal", "flush", "wait"],
        "not flushed": [put, "signal", "wait"],
        "not signalled": [put, "flush"],
    }.items():
        text = small.plan("alltonext", [[ops], [ops]], (1, 1, 0)).replace('"memory"', '"port"')
        faults[name] = found(json.dumps({**json.loads(text), "inplace": False}), orders=40)
    assert not faults["flushed"] and faults["not flushed"] and faults["not signalled"]


def test_a_semaphore_is_taken_after_it_is_given() -> None:
    first = [small.op("copy", ["i0"], ["s0"]), "nop", {"name": "sem_release", "semaphore_ids": [0]}]
    second = [{"name": "sem_acquire", "semaphore_ids": [0]}, "nop", small.op("copy", ["s0"], ["o0"])]
    assert found(alone([first, second], 1)) == []
    assert found(alone([first[::2], second], 1), orders=40) != []
    assert isinstance(found(alone([first[:2], second], 1), orders=1)[0], Stuck)


def test_a_rank_ends_when_its_own_threads_have() -> None:
    late = small.put_and_added()
    for rank in range(2):
        late = edited(late, lambda ops: ops.__delitem__(slice(7, 9)), rank=rank)
    faults = found(late, orders=60)
    assert {type(fault) for fault in faults} <= {Wrong, Broken} and faults


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("{}", "no execution plan of MSCCL"),
        (small.in_packets().replace('"upkt"', '"unpack"'), "there is no such operation"),
        (small.in_packets().replace('"buffer_id": 1', '"buffer_id": 3'), "buffer 3 of 3"),
        (small.put_and_added().replace('"channel_ids": [0]', '"channel_ids": [1]'), "channel 1 of 1"),
        (small.put_and_added().replace('"index": 0', '"index": 9'), "chunks 9 to 9 of buffer"),
    ],
)
def test_a_plan_that_no_executor_runs_is_broken(text: str, said: str) -> None:
    with pytest.raises(Broken, match=said):
        run(text, seed=0)


def test_the_machine_shares_no_code_with_the_readers() -> None:
    for file in Path(__file__).parent.glob("machine*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in getattr(node, "names", ()) if isinstance(node, ast.Import)]
            modules = [*names, getattr(node, "module", None) or ""]
            assert not any(module.startswith("overlayccl_core") for module in modules), file
