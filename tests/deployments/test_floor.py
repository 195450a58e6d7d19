"""Times that cannot be are below the floor, times that were probed are not."""

from collections.abc import Callable, Sequence

import pytest

from overlayccl_core.deployments.floor import Floor, Probed, floor_from_probes
from overlayccl_core.probes.probe import ProbeBuilder, ProbeRole
from overlayccl_core.program import nodes
from overlayccl_core.program.groups import groups_of
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Issue, Program

Call = tuple[Kind, int]
SMALL, LARGE = (Kind.ALL_REDUCE, 256), (Kind.ALL_REDUCE, 2**18)
EXCHANGE = (Kind.ALL_TO_ALL, 256)


def finished(build: Callable[[ProbeBuilder], None], *, uniform: bool = False) -> Program:
    probe = ProbeBuilder(4, 4, uniform=uniform)
    build(probe)
    return probe.finish("p", ProbeRole.STRUCTURED).program


def waiting(*calls: Call) -> Program:
    """Each call is waited for before the next starts; none reads another's result."""

    def build(probe: ProbeBuilder) -> None:
        for kind, size in calls:
            probe.write(probe.issue(kind, probe.read(size)))
        if not calls:
            probe.write(probe.read(4))

    return finished(build)


def together(*calls: Call) -> Program:
    """All calls are in flight before the first is waited for."""

    def build(probe: ProbeBuilder) -> None:
        issued = [probe.issue(kind, probe.read(size)) for kind, size in calls]
        for node in issued:
            probe.write(node)

    return finished(build)


def chained(*kinds: Kind, uniform: bool = False) -> Program:
    """Each call takes the result of the one before it, which nobody writes."""

    def build(probe: ProbeBuilder) -> None:
        value = probe.read(256)
        for kind in kinds:
            value = probe.issue(kind, value)
        probe.write(value)

    return finished(build, uniform=uniform)


def moved(*turns: Sequence[int]) -> Program:
    """Permutes one after another; a turn is the source of every rank."""

    def build(probe: ProbeBuilder) -> None:
        value: Node = probe.read(256)
        for sources in turns:
            value = nodes.make_permute(value, list(sources))
            probe._events.append(Issue((value,)))
        probe.write(value)

    return finished(build)


def floor_of(*probes: tuple[Program, float]) -> Floor:
    return floor_from_probes([Probed(program=program, us=us, least_us=us) for program, us in probes])


PROBES = [
    (waiting(SMALL), 400.0),
    (waiting(SMALL, SMALL), 600.0),  # 300 us each
    (together(SMALL, SMALL, SMALL), 450.0),
    (waiting(LARGE), 4000.0),
    (together(LARGE, LARGE), 6000.0),  # 3 MiB on the wire beyond 300 us: 552 B/us
    (waiting(EXCHANGE), 100.0),
    (waiting(), 10.0),
]
FLOOR = floor_of(*PROBES)


def about(us: float) -> object:
    """Within the time of the few bytes of small calls."""
    return pytest.approx(us, abs=30)


@pytest.mark.parametrize(
    ("program", "us"),
    [
        (waiting(SMALL), 300),
        (waiting(*[SMALL] * 8), 2400),
        (waiting(SMALL, EXCHANGE), 400),
        (chained(Kind.ALL_REDUCE, Kind.ALL_TO_ALL, Kind.ALL_REDUCE), 700),
        (together(SMALL, SMALL, EXCHANGE), 300),  # as much as the dearest
        (waiting((Kind.ALL_GATHER, 256)), 0),  # not probed: its bytes alone
    ],
)
def test_calls_that_wait_for_or_read_each_other_add_up_and_those_in_flight_together_do_not(
    program: Program, us: float
) -> None:
    assert FLOOR.us(program) == about(us)
    assert FLOOR.us(waiting()) == 0


def test_latencies_add_and_bytes_over_the_best_bandwidth_add() -> None:
    sent = 2 * 3 / 4 * 4 * 2**18
    assert FLOOR.us(waiting(LARGE, SMALL, LARGE)) == about(3 * 300 + 2 * sent / FLOOR.bytes_per_us)


def test_all_bytes_go_over_the_best_bandwidth() -> None:
    assert FLOOR.us(together(*[LARGE] * 6)) == pytest.approx(3 * (6000 - 300), rel=0.02)


def test_values_of_one_call_have_its_latency_once_and_the_bytes_of_all() -> None:
    def build(probe: ProbeBuilder) -> None:
        for node in probe.issue_call(Kind.ALL_REDUCE, [probe.read(2**18) for _ in range(3)]):
            probe.write(node)

    one_call = finished(build)
    assert FLOOR.us(one_call) == about(FLOOR.us(waiting((Kind.ALL_REDUCE, 3 * 2**18))))
    assert FLOOR.us(one_call) < FLOOR.us(waiting(LARGE, LARGE, LARGE)) - 500


def test_calls_of_more_ranks_are_no_quicker() -> None:
    halves = groups_of([range(2), range(2, 4)], 4)
    pair = finished(lambda probe: probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(256), halves)))
    assert floor_of((pair, 500.0), *PROBES).us(pair) == about(300)
    assert floor_of((pair, 100.0), *PROBES).us(pair) == about(100)


ROTATION, SWAP = (3, 0, 1, 2), (1, 0, 3, 2)


def test_messages_that_every_rank_sends_add_up() -> None:
    floor = floor_of((moved(ROTATION), 200.0), *PROBES)
    assert floor.us(moved(ROTATION, SWAP, (1, 2, 3, 0))) == about(600)


def test_messages_that_are_handed_on_fill_a_stream_like_a_pipeline_so_they_have_no_floor_but_their_bytes() -> (
    None
):
    floor = floor_of((moved(ROTATION), 200.0), *PROBES)
    once = pytest.approx(1024 / floor.bytes_per_us)  # each rank sends at most once
    assert floor.us(moved((-1, 0, -1, -1), (-1, -1, 1, -1), (-1, -1, -1, 2))) == once
    assert floor.us(moved((0, 2, 3, 1))) == once  # one keeps its own


def test_the_floor_is_lowered_until_no_probe_is_below_it() -> None:
    quick = (waiting(SMALL, EXCHANGE, SMALL), 350.0)  # the sum of the latencies is 700
    floor = floor_of(quick, *PROBES)
    assert floor.us(quick[0]) == pytest.approx(350) and floor.us(waiting(SMALL)) == about(150)
    assert all(us >= floor.us(program) * (1 - 1e-9) for program, us in (quick, *PROBES))


def test_the_least_that_a_probe_took_is_its_latency_and_its_time_is_what_the_floor_is_held_against() -> None:
    large = Probed(program=waiting(LARGE), us=3000.0, least_us=2500.0)
    for us, lowest in ((300.0, 200), (150.0, 150)):
        floor = floor_from_probes([Probed(program=waiting(SMALL), us=us, least_us=200.0), large])
        assert floor.us(waiting(SMALL)) == about(lowest)


def test_probes_without_collectives_give_no_floor() -> None:
    with pytest.raises(ValueError, match="run the probes first"):
        floor_of((waiting(), 10.0))
