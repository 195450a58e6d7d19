"""Shares of calls beside computing: known ones come back from times; between probed sizes they are between."""

from itertools import product

import pytest

from overlayccl_core.configuration.deployment import load
from overlayccl_core.costmodel.beside import Beside, Shares, Together, both_us, fit_beside, fit_shares
from overlayccl_core.probes.beside import beside_probes
from overlayccl_core.program import nodes
from overlayccl_core.program.groups import contiguous, world
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.payload import payload_bytes

CALL_US = 1000.0


def test_long_work_ends_later_by_the_calls_part_of_the_core_and_short_work_by_the_slowdown() -> None:
    shares = Shares(cpu=0.3, slower=1.5)
    assert both_us(CALL_US, 9000, shares) == pytest.approx(9300)
    assert both_us(CALL_US, 400, shares) == pytest.approx(1000 + 400 / (1 - 0.2) * (1 - 1 / 1.5))
    assert both_us(CALL_US, 400, Shares(cpu=0, slower=1)) == CALL_US  # all of it is hidden
    assert both_us(CALL_US, 400, Shares(cpu=1, slower=1)) == 1400  # nothing is
    edge = 0.8 * 1.5 * CALL_US  # both are over at once
    assert both_us(CALL_US, edge - 1e-6, shares) == pytest.approx(both_us(CALL_US, edge, shares))


@pytest.mark.parametrize(("cpu", "slower"), [*product((0.0, 0.1, 0.5, 0.9), (1.0, 1.2, 2.0))])
def test_shares_come_back_from_long_and_short_work(cpu: float, slower: float) -> None:
    true = Shares(cpu=cpu, slower=slower)
    timed = [
        Together(call_us=CALL_US, work_us=work, both_us=both_us(CALL_US, work, true)) for work in (150, 9000)
    ]
    found = fit_shares(timed)
    assert found.cpu == pytest.approx(cpu, abs=0.021) and found.slower == pytest.approx(slower, abs=0.06)


def test_a_call_between_two_probed_sizes_has_shares_between_theirs_and_beyond_them_those_of_the_nearest() -> (
    None
):
    head = {"kind": "all_reduce", "reach": "node4"}
    known = Beside(
        [
            {**head, "payload_bytes": 2**18, "cpu_share": 0.2, "slower": 1.0},
            {**head, "payload_bytes": 2**12, "cpu_share": 0.8, "slower": 1.4},
        ]
    )

    def shares(elements: int) -> Shares | None:
        operand = nodes.make_input(("x", 0), equal=False, size=elements)
        return known.of((nodes.make_collective(Kind.ALL_REDUCE, operand, world(4)),), 4)

    assert shares(2**13) == Shares(cpu=pytest.approx(0.5), slower=pytest.approx(1.2))
    assert shares(2**20) == Shares(cpu=0.2, slower=1.0)
    operand = nodes.make_input(("x", 0), equal=False, size=8)
    assert known.of((nodes.make_collective(Kind.ALL_REDUCE, operand, contiguous(4, 2)),), 4) is None


def test_what_is_timed_of_a_deployment_gives_the_shares_of_each_kind_reach_and_size() -> None:
    local = load("config/deployments/local.yaml")
    true, timed = Shares(cpu=0.3, slower=1.5), []
    for probe in beside_probes(local):
        pieces = sum(x.kind is Kind.SUM for x in probe.program.nodes)
        size = sum(map(payload_bytes, probe.program.collectives)) / 2**10
        call_us, work_us = 300 + 3 * size, 700.0 * pieces
        us = both_us(call_us, work_us, true) if size and pieces else call_us if size else work_us
        timed.append((probe.program, us))
    rows = fit_beside(timed)
    assert {row["kind"] for row in rows} == {kind.value for kind in COLLECTIVES}
    assert {(row["reach"], row["payload_bytes"]) for row in rows if row["kind"] == "all_reduce"} == {
        ("node4", 2**12), ("node4", 2**18), ("node4", 2**22), ("node2", 2**18),
    }  # fmt: skip
    for row in rows:
        assert row["rel_error"] < 0.01 and row["cpu_share"] == pytest.approx(true.cpu, abs=0.03)


def test_the_work_of_such_a_probe_is_done_while_its_call_is_in_flight() -> None:
    for probe in beside_probes(load("config/deployments/local.yaml")):
        if probe.program.calls:
            works = [step.in_flight for step in lower(probe.program) if step.action is Action.SUM]
            assert works == [1] * len(works)
    assert not beside_probes(load("config/deployments/trn1.yaml"))
