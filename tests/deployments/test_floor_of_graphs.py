"""The floor where ranks compile: below what a node's published figures say of known ways in training."""

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.configuration import topology
from overlayccl_core.configuration.deployment import load
from overlayccl_core.deployments.floor import Floor, Probed, _busiest_bytes, floor_from_probes
from overlayccl_core.probes.probe import ProbeBuilder, ProbeRole
from overlayccl_core.probes.structured import structured_probes
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.program import Boundary, Issue, Program
from tests.known_cases import programs

CONFIG = Path(__file__).parents[2] / "config"
CALIBRATION = topology.load("trn1.32xlarge", CONFIG / "topologies").calibration
BYTES_PER_US = 20e3
EXCHANGES = ("alltoallv", "uniform_a2a", "tp_mlp")  # whose many pieces take long to trace for 224 ranks
PLACES = [
    *(("trn1-1n", problem) for problem in loader.names("problems")),
    *(("trn1", problem) for problem in loader.names("problems") if problem not in EXCHANGES),
]


def published_us(program: Program) -> float:
    """Its graphs by their number of calls, what lies between them, and the bytes of the busiest rank."""
    calls: Counter[int] = Counter()
    graph = 0
    for event in program.events:
        graph += isinstance(event, Boundary)
        calls[graph] += isinstance(event, Issue)
    depth, us = zip(*CALIBRATION.back_to_back_us, strict=True)
    graphs = sum(float(np.interp(k, depth, us)) for k in calls.values() if k)
    return graphs + graph * CALIBRATION.graph_boundary_us + _busiest_bytes(program) / BYTES_PER_US


@cache
def floor_of(deployment: str) -> Floor:
    probes = [p.program for p in structured_probes(load(CONFIG / f"deployments/{deployment}.yaml"))]
    timed = [(p, published_us(p)) for p in probes if p.collectives]
    return floor_from_probes([Probed(program=p, us=us, least_us=us) for p, us in timed])


@pytest.mark.parametrize(("deployment", "problem"), PLACES)
def test_no_known_way_is_below_the_floor_by_the_published_figures(deployment: str, problem: str) -> None:
    here = load(CONFIG / f"deployments/{deployment}.yaml")
    floor = floor_of(deployment)
    entry = catalog.plug_in(problem).examples(here.ranks)["train"]
    case = catalog.case(problem, entry, ranks=here.ranks, ranks_per_node=here.ranks_per_node, uniform=True)
    for at in catalog.directions(case):
        for name, program in programs(at, derived=False).items():
            assert floor.us(program) <= published_us(program), f"{at.direction.value} {name}"


def test_a_graph_takes_no_less_than_a_call_of_its_kind() -> None:
    floor = floor_of("trn1-1n")
    first_us = CALIBRATION.back_to_back_us[0][1]
    assert list(floor.latency_us.values()) == pytest.approx([first_us] * 9, rel=0.002)
    assert floor.bytes_per_us == pytest.approx(BYTES_PER_US, rel=0.005)


def test_graphs_follow_each_other_and_calls_of_one_may_hide_in_each_other() -> None:
    floor = floor_of("trn1-1n")
    first_us = CALIBRATION.back_to_back_us[0][1]

    def of(*graphs: int) -> float:
        probe = ProbeBuilder(32, 32, uniform=True)
        for number, calls in enumerate(graphs):
            for _ in range(number and 1):
                probe.boundary()
            value = probe.read(32)
            for _ in range(calls):
                value = probe.issue(Kind.ALL_REDUCE, value)
            probe.write(value)
        return floor.us(probe.finish("p", ProbeRole.STRUCTURED).program)

    assert of(1) == of(5) == pytest.approx(first_us, rel=0.01)
    assert of(1, 5, 1) == pytest.approx(3 * first_us, rel=0.01)
