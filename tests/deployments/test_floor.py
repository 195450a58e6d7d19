"""Times that cannot be are below the floor, times that were probed are not."""

import pytest

from overlayccl_core.deployments.floor import floor_from_probes
from overlayccl_core.probes.probe import ProbeBuilder, Role
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.program import Program


def program(*collectives: tuple[Kind, int]) -> Program:
    probe = ProbeBuilder(4, 4)
    for kind, size in collectives:
        probe.write(probe.issue(kind, probe.read(size)))
    if not collectives:
        probe.write(probe.read(4))
    return probe.finish("p", Role.STRUCTURED).program


SMALL, LARGE = (Kind.ALL_REDUCE, 256), (Kind.ALL_REDUCE, 2**18)
PROBES = [
    (program(SMALL), 400.0),
    (program(SMALL, SMALL), 600.0),  # 300 us each
    (program(LARGE), 3000.0),  # 1.5 MiB on the wire: 524 B/us
    (program((Kind.ALL_TO_ALL, 256)), 100.0),
    (program(), 10.0),
]
FLOOR = floor_from_probes(PROBES)


def test_a_quarter_of_the_fastest_probe_of_the_dearest_collective() -> None:
    assert FLOOR.us(program(SMALL)) == pytest.approx(75)
    assert FLOOR.us(program((Kind.ALL_TO_ALL, 256))) == pytest.approx(25)
    assert FLOOR.us(program(SMALL, (Kind.ALL_TO_ALL, 256))) == pytest.approx(75)
    assert FLOOR.us(program((Kind.ALL_REDUCE, 2**17))) == pytest.approx(1500)  # by its bytes


def test_the_bytes_over_the_best_bandwidth() -> None:
    assert FLOOR.us(program(*[LARGE] * 3)) == pytest.approx(9000)


def test_a_collective_below_all_probed_sizes_has_no_floor_but_its_bytes() -> None:
    assert FLOOR.us(program((Kind.ALL_REDUCE, 4))) < 0.1
    assert FLOOR.us(program((Kind.ALL_GATHER, 4))) < 0.1


def test_a_program_without_collectives_may_take_no_time() -> None:
    assert FLOOR.us(program()) == 0


def test_no_probe_is_below_the_floor() -> None:
    assert all(us >= FLOOR.us(p) * (1 - 1e-9) for p, us in PROBES)


def test_probes_without_collectives_give_no_floor() -> None:
    with pytest.raises(ValueError, match="run the probes first"):
        floor_from_probes([(program(), 10.0)])
