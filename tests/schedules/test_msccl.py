"""MSCCL XML: right schedules are proven, wrong ones refused or refuted with the place."""

import re

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.program import Program
from overlayccl_core.schedules import msccl
from overlayccl_core.schedules.schedule import Schedule, entry, program
from tests.schedules.files import RIGHT, Schedules, all_pairs, exchange, onward, ring


def programs(text: str, size: int = 3) -> list[Program]:
    """Those of each use of a file, at so many elements a chunk."""
    return [_program(schedule, size) for schedule in msccl.read(text)]


def _program(schedule: Schedule, size: int) -> Program:
    elements = schedule.chunks * size
    n = schedule.ranks
    problem, fields = entry(schedule, elements)
    case = catalog.case(problem, fields, ranks=n, ranks_per_node=n)
    return program(schedule, catalog.build(case))


def verdict(made: Program) -> str:
    """`ok`, or why not."""
    return equivalence.prove(made, catalog.reference_program(made.problem)).reason.value


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_schedule_is_proven(name: str, n: int) -> None:
    assert [verdict(made) for made in programs(RIGHT[name](n))] == ["ok"]


def test_a_ring_is_a_permute_for_each_turn() -> None:
    (made,) = programs(ring(4))
    assert [x.kind for x in made.collectives] == [Kind.COLLECTIVE_PERMUTE] * 6
    assert {x.size for x in made.collectives} == {3}


def test_what_goes_to_the_next_rank_is_read_as_that() -> None:
    (schedule,) = msccl.read(onward(3), "all_to_next")
    assert verdict(_program(schedule, 6)) == "ok"
    (schedule,) = msccl.read(onward(3).replace('coll="custom"', 'coll="allreduce"'))
    with pytest.raises(Rejected, match=r"chunk 0 of the result of rank 0 .* is never written"):
        _program(schedule, 6)


def test_both_uses_of_a_file_are_read() -> None:
    (out_of_place,) = msccl.read(exchange(4))
    assert out_of_place.name == "ours"
    with pytest.raises(Rejected, match=r"a race at chunk \d of the buffer in place of rank"):
        msccl.read(exchange(4).replace('inplace="0"', 'inplace="1"'))


def test_in_place_an_input_is_its_part_of_the_output() -> None:
    (schedule,) = msccl.read(RIGHT["gather"](4))
    assert schedule.given[2] == ((2, "the buffer in place", 2),)
    assert schedule.results[2][2] == schedule.given[2][0]


WRONG = {
    "a chunk that comes from elsewhere": (
        exchange(4),
        'srcoff="3" dstbuf="o" dstoff="0"',
        'srcoff="2" dstbuf="o" dstoff="0"',
    ),
    "a sum that is a copy": (all_pairs(4), 'type="re"', 'type="cpy"'),
    "a chunk that is added twice": (
        ring(4),
        'type="rrs" srcbuf="i" srcoff="0"',
        'type="rrs" srcbuf="i" srcoff="1"',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_schedule_is_refuted(name: str) -> None:
    text, right, wrong = WRONG[name]
    assert right in text
    (made,) = programs(text.replace(right, wrong, 1))
    assert verdict(made) == "wrong_value"


def edited(text: str, pattern: str, new: str) -> str:
    """A file with its first match replaced."""
    changed, count = re.subn(pattern, new, text, count=1)
    assert count == 1
    return changed


COPIES = Schedules("alltoall", 2, {"i": 2, "o": 2, "s": 4})
for _rank in range(2):
    COPIES.step(_rank, "cpy", ("i", 0), ("s", 0), count=2)
    COPIES.step(_rank, "cpy", ("s", 0), ("s", 2), count=2)
    COPIES.step(_rank, "re", ("s", 1), ("s", 0))

SUMS = Schedules("allreduce", 2, {"i": 4, "s": 4}, in_place=True)
for _rank in range(2):
    SUMS.step(_rank, "re", ("s", 0), ("i", 0), count=2)
    SUMS.step(_rank, "re", ("s", 2), ("i", 0), count=2)

REFUSED = {
    "step 1 (re) adds 1 chunks, and the step before 2 to the same": (
        SUMS.text(),
        'srcoff="2" dstbuf="i" dstoff="0" cnt="2"',
        'srcoff="2" dstbuf="i" dstoff="0" cnt="1"',
    ),
    "nchunksperloop is 8, and its larger buffer has 4 chunks": (ring(4), 'loop="4"', 'loop="8"'),
    "it has or moves more than 1048576 chunks": (ring(2), 'i_chunks="2"', 'i_chunks="1048576"'),
    "step 1 (cpy) reads chunks that it writes itself": (
        COPIES.text(),
        'dstbuf="s" dstoff="2"',
        'dstbuf="s" dstoff="1"',
    ),
    "step 2 (re) reads chunks that it writes itself": (
        COPIES.text(),
        'srcoff="1" dstbuf="s"',
        'srcoff="0" dstbuf="s"',
    ),
    "(nop) waits for nothing": (exchange(2), 'type="cpy"', 'type="nop"'),
    "is behind a nop and waits for nothing itself": (
        RIGHT["gather"](8),
        r'(type="nop"(?s:.*?)type="s".*?)depid="\d+" deps="\d+"',
        r'\1depid="-1" deps="-1"',
    ),
    "a race at chunk 1 of scratch of rank 0: rank 0, thread block 2": (
        all_pairs(2),
        r'(type="re".*?)depid="\d+" deps="\d+"',
        r'\1depid="-1" deps="-1"',
    ),
    "a deadlock: rank 0, thread block 1, step 1 (r) waits": (all_pairs(2), r'hasdep="1"', 'hasdep="0"'),
    "a send without its receive": (exchange(2), r'<step[^>]*type="r".*?/>', ""),
    "a receive without its send": (exchange(2), r'<step[^>]*type="s".*?/>', ""),
    "uses chunk 4 of input, which has 4": (
        exchange(4),
        r'type="s" srcbuf="i" srcoff="\d"',
        'type="s" srcbuf="i" srcoff="4"',
    ),
    "takes 1 chunks": (exchange(4), r'(type="s".*?)cnt="1"', r'\1cnt="2"'),
    "'rcopy' is none of the operations": (ring(2), r'type="r"', 'type="rcopy"'),
    "its thread block has no peer": (exchange(2), r'send="1"', 'send="-1"'),
    "waits for step 7 of thread block 0: there is none": (
        ring(2),
        'depid="-1" deps="-1"',
        'depid="0" deps="7"',
    ),
    "reads chunk 1 of scratch of rank 0, which nobody has written": (
        all_pairs(2),
        r'(type="r" .*?dstbuf=)"s" dstoff="1"',
        r'\1"s" dstoff="0"',
    ),
    "chunk 0 of the result of rank 0 (chunk 0 of output of rank 0) is never written": (
        exchange(2),
        r'<step[^>]*type="cpy".*?/>',
        "",
    ),
    "GPU 1 is not there": (ring(2), r'(?s) <gpu id="1".*</gpu>', ""),
    "srcoff must be an integer": (ring(2), r'srcoff="0"', 'srcoff="1e3"'),
    "none of allreduce, allgather, reducescatter, alltoall": (ring(2), "allreduce", "butterfly"),
    "steps are in order": (ring(2), r'<step s="1"', '<step s="5"'),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_run_is_refused_with_the_place(why: str) -> None:
    with pytest.raises(Rejected, match=re.escape(why)) as refused:
        programs(edited(*REFUSED[why]))
    assert "\n" not in str(refused.value)


def test_a_circle_of_waits_is_a_deadlock() -> None:
    file = Schedules("allreduce", 2, {"i": 2}, in_place=True)
    for rank in (0, 1):
        file.step(rank, "rrc", ("i", 0), ("i", 0), send=1 - rank, receive=1 - rank)
        file.step(rank, "s", ("i", 0), ("i", 0), send=1 - rank, receive=1 - rank)
    with pytest.raises(
        Rejected, match=r"a deadlock: rank 0, thread block 0, step \d \(\w+\), which waits for"
    ):
        msccl.read(file.text())


@pytest.mark.parametrize(
    ("protocol", "sends", "runs"),
    [("Simple", 2, True), ("Simple", 3, False), ("LL", 8, True), ("LL", 9, False)],
)
def test_a_connection_holds_few_sends(protocol: str, sends: int, runs: bool) -> None:
    file = Schedules("allgather", 2, {"o": 2 * sends}, in_place=True)
    for rank in (0, 1):
        for i in range(sends):
            file.step(rank, "s", ("o", rank * sends + i), send=1 - rank, receive=1 - rank)
        for i in range(sends):
            theirs = ("o", (1 - rank) * sends + i)
            file.step(rank, "r", theirs, theirs, send=1 - rank, receive=1 - rank)
    text = file.text().replace('proto="Simple"', f'proto="{protocol}"')
    if runs:
        assert [verdict(made) for made in programs(text)] == ["ok"]
        return
    with pytest.raises(Rejected, match="a deadlock"):
        msccl.read(text)


NO_SCHEDULE = {
    "not XML": "hello",
    "no element found": "",
    "<html>: not MSCCL XML": "<html><body/></html>",
    "<tb> inside <algo>": '<algo name="x" ngpus="2" nchunksperloop="2" coll="allreduce" inplace="1"><tb/></algo>',
    "document type": '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><algo name="&c;"/>',
}


@pytest.mark.parametrize("why", NO_SCHEDULE)
def test_what_is_no_schedule_is_said_at_once(why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        msccl.read(NO_SCHEDULE[why])
