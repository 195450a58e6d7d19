"""Programs become MSCCL XML that is right, fused, aggregated and free of deadlocks."""

import re
from collections import Counter
from random import Random

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.schedules import msccl, msccl_writing
from overlayccl_core.schedules.counts import counts
from overlayccl_core.schedules.instructions import RankInstruction
from overlayccl_core.schedules.msccl_writing import write
from overlayccl_core.schedules.thread_blocks import placed
from tests.known_cases import case, programs
from tests.schedules.random_routes import random_sum
from tests.schedules.written_ways import (
    EXCHANGE,
    GATHER,
    OF_KIND,
    SCATTER_SUM,
    SUM,
    of_permutes,
    problem_of,
    proofs_of,
    traced,
)

RANKS = (2, 3, 4, 8)
LANGUAGE = "from overlayccl_core.program.language import "
WORDS = f"{LANGUAGE}collective_permute, concat, flatten, reshape, slice_axis, split\n"
WAIT = re.compile(r'depid="(\d+)" deps="(\d+)"')
NO_WAIT = 'depid="-1" deps="-1"'


@pytest.mark.parametrize("kind", OF_KIND)
@pytest.mark.parametrize("ranks", RANKS)
def test_what_is_written_is_proven_by_the_reader(kind: str, ranks: int) -> None:
    problem = problem_of(kind, ranks)
    ways = of_permutes(problem)
    assert len(ways) > 1
    for name, program in ways.items():
        text = write(program, name)
        verdicts = proofs_of(text, problem)
        assert all(verdict.passed for verdict in verdicts), (name, [v.message for v in verdicts])
        assert counts(text).in_place == ((False,) if kind == EXCHANGE else (False, True)), name


@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_is_fused_as_published_ones_are(ranks: int) -> None:
    """Per chunk: one send, N - 2 hops that add, one that also keeps the sum, N - 2 that hand on, one receive."""
    found = counts(write(traced("ring", problem_of(SUM, ranks))))
    hops = ranks * (ranks - 2)
    wanted = Counter({"s": ranks, "rrs": hops, "rrcs": ranks, "rcs": hops, "r": ranks})
    assert Counter(found.steps) == +wanted
    assert found.blocks == ranks and found.channels == 1 and found.chunks == ranks
    assert found.moved == 2 * ranks * (ranks - 1) and len(found.links) == ranks


UNEVEN = """
def uneven(io, p):
    x = io.read("given", 0)
    swap = [(0, 1), (1, 0)]
    short, long = [collective_permute(part, swap) for part in split(x, [1, p.sizes[0] - 1])]
    theirs = concat([short, long])
    both = reshape(concat([x, theirs, x]), (3, -1))
    io.write("result", 0, flatten(slice_axis(both, 0, [0, 1], 2)))
"""


def test_a_step_has_no_more_chunks_than_the_runtimes_take() -> None:
    entry = {"calls": [{"kind": "all_gather", "elements": 162}]}
    problem = catalog.build(catalog.case("captured", entry, ranks=2, ranks_per_node=2))
    text = write(trace_source(WORDS + UNEVEN, "uneven", problem), "uneven")
    moved = [int(count) for count in re.findall(r'cnt="(\d+)"', text)]
    assert max(moved) == 71  # RCCL and MSCCL refuse 72
    assert all(verdict.passed for verdict in proofs_of(text, problem))


@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_that_scatters_keeps_nothing_on_the_way(ranks: int) -> None:
    found = counts(write(traced("scattering_ring", problem_of(SCATTER_SUM, ranks))))
    wanted = Counter({"s": ranks, "rrs": ranks * (ranks - 2), "rrc": ranks})
    assert Counter(found.steps) == +wanted


def test_a_gather_round_the_ring_hands_on_as_it_receives() -> None:
    found = counts(write(programs(problem_of(GATHER, 8))["permute_ring"]))
    steps = Counter(found.steps)
    assert steps["s"] == steps["r"] == steps["cpy"] == 8 and steps["rcs"] == 8 * 6
    assert not steps["re"]


def test_recursive_doubling_sends_on_what_it_has_just_added() -> None:
    found = counts(write(traced("recursive_doubling", problem_of(SUM, 8))))
    steps = Counter(found.steps)
    assert steps["s"] == 8 and steps["rrcs"] == 16 and steps["rrc"] == 8
    assert not steps["re"] and found.moved == 3 * 8 * found.chunks


def test_chunks_side_by_side_travel_together() -> None:
    """By doubling, a rank sends 1, 2 and 4 chunks, each time in one step."""
    text = write(traced("gathering_by_doubling", problem_of(GATHER, 8)))
    sent = Counter(re.findall(r'type="s".*? cnt="(\d+)"', text))
    assert sent == {"1": 8, "2": 8, "4": 8}
    assert counts(text).moved == 8 * 7


def test_calls_in_flight_together_have_channels_of_their_own() -> None:
    two = counts(write(traced("in_two_halves", problem_of(EXCHANGE, 4))))
    one = counts(write(programs(problem_of(EXCHANGE, 4))["permute_ring_exchanges"]))
    assert (one.channels, two.channels) == (1, 2)
    assert one.volume == two.volume


def test_a_long_sum_is_additions_side_by_side_behind_its_waits() -> None:
    """The runtimes make one addition of `re` steps without a wait between them."""
    text = write(programs(problem_of(SUM, 8))["permute_ring_twice"])
    for chain in re.findall(r'(?:.*type="re".*\n)+', text):
        assert all(NO_WAIT in line for line in chain.splitlines()[1:])
    assert counts(text).steps["re"] == 8 * 7


@pytest.mark.parametrize(("count", "runs"), [(2, True), (3, False)])
def test_messages_longer_than_a_connection_holds_are_not_sent_before_all_is_received(
    count: int, runs: bool
) -> None:
    """Two ranks that both send all of a message first: its third chunk finds no room."""
    sends = [
        RankInstruction(rank, [("s", ("i", 0), ("i", 0))], count, depth=1, height=2) for rank in range(2)
    ]
    receives = [
        RankInstruction(rank, [("r", ("o", 0), ("o", 0))], count, depth=2, height=1) for rank in range(2)
    ]
    for send, receive in zip(sends, reversed(receives), strict=True):
        send.target, receive.source = receive, send
    together, apart = (placed([*sends, *receives], 2, paired=paired) for paired in (True, False))
    assert together is not None and together.runs() is runs
    assert apart is not None and apart.runs()


@pytest.mark.parametrize("way", ["permute_ring_twice", "permute_ring_of_copies_added"])
def test_a_dropped_wait_is_found(way: str) -> None:
    """Planted: each wait of the file, left out."""
    problem = problem_of(SUM, 4)
    text = write(programs(problem)[way])
    lines = text.splitlines()
    waiting = [i for i, line in enumerate(lines) if WAIT.search(line)]
    assert len(waiting) > 4
    missed = []
    for i in waiting:
        beside = i + 1 if "nop" in lines[i] else i - 1  # of waits for one step, another is there twice
        other = WAIT.search(lines[beside]) if "nop" in lines[min(i, beside)] else None
        without = [*lines[:i], WAIT.sub(other.group() if other else NO_WAIT, lines[i]), *lines[i + 1 :]]
        try:
            msccl.read("\n".join(without))
        except Rejected as error:
            assert "race" in str(error)
        else:
            missed.append(lines[i])
    assert not missed


def test_a_ring_too_long_for_one_thread_block_takes_two_channels() -> None:
    found = counts(write(traced("ring", problem_of(SUM, 33))))
    assert found.channels == 2 and found.blocks == 66
    assert found.steps["rrs"] == found.steps["rcs"] == 33 * 31


@pytest.mark.parametrize("seed", (*range(10), 34, 65))
def test_random_routes_are_right(seed: int) -> None:
    random = Random(seed)
    ranks, chunks = random.randint(2, 6), random.randint(1, 5)
    problem = problem_of(SUM, ranks, 2 * chunks)
    text = write(random_sum(problem, chunks, random))
    assert all(verdict.passed for verdict in proofs_of(text, problem))


def test_the_same_program_gives_the_same_file() -> None:
    problem = problem_of(SUM, 8)
    assert write(programs(problem)["permute_ring_twice"]) == write(programs(problem)["permute_ring_twice"])


def test_a_padded_buffer_is_cut_where_its_padding_begins() -> None:
    problem = problem_of(SUM, 4, elements=10)
    text = write(programs(problem)["permute_ring_twice"])
    assert counts(text).chunks == 10
    assert all(verdict.passed for verdict in proofs_of(text, problem))


@pytest.mark.parametrize(
    ("kind", "ranks", "way", "message"),
    [
        (SUM, 4, "coalesced", "all_reduce"),
        (SUM, 2, "halved", "a value times 1/2"),
        (SUM, 2, "narrow", "a cast to bfloat16"),
        (SUM, 2, "nothing_for_rank_0", "rank 0 is zeros"),
        ("all_reduce_avg", 2, "recursive_doubling", "one collective, without a factor"),
    ],
)
def test_what_cannot_be_written_is_refused(kind: str, ranks: int, way: str, message: str) -> None:
    problem = problem_of(kind, ranks)
    program = programs(problem)[way] if way == "coalesced" else traced(way, problem)
    with pytest.raises(Rejected, match=re.escape(message)) as refused:
        write(program)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [
        ("MAX_STEPS", 8, "thread block 0: 16 steps, and the limit is 8"),
        ("MAX_PEERS", 0, "GPU 0 sends to 1 peers on channel 0, and the limit is 0"),
        ("MAX_BLOCKS", 0, "GPU 0 has 1 thread blocks, and the limit is 0"),
    ],
)
def test_more_than_the_runtimes_have_is_refused(
    limit: str, most: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = programs(problem_of(SUM, 8))["permute_ring_added"]
    monkeypatch.setattr(msccl_writing, limit, most)
    with pytest.raises(Rejected, match=message):
        write(program)


def test_several_calls_are_no_schedule() -> None:
    calls = [{"kind": SUM, "elements": 4}] * 2
    problem = catalog.build(case("captured", {"calls": calls}, ranks=4))
    with pytest.raises(Rejected, match="with one call"):
        write(catalog.reference_program(problem))
