"""Orders make legal probes with names of their own, and refuse what cannot be in one message."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from overlayccl_core.configuration.deployment import Tier
from overlayccl_core.configuration.settings import read
from overlayccl_core.costmodel.features import features
from overlayccl_core.probes.asked.exchanges import Supports
from overlayccl_core.probes.asked.order import MOST, ProbeTarget
from overlayccl_core.probes.asked.tools import bounded, order_of, refusal, tools
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.probes.sweep import probes_of
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.lowering import Action
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.run_order import as_run
from overlayccl_core.program.segments import walk
from tests.probes.asked.talk import CAN, LOCAL, PLACE
from tests.stages.flow import ROOT

TWO_NODES = ProbeTarget(
    deployment=LOCAL.changed(
        ranks_per_node=2, tiers=(Tier(name="node", ranks=2), Tier(name="network", ranks=4))
    ),
    mixed_seed=1,
)
COMPILED = ProbeTarget(deployment=LOCAL.changed(uniform=True), mixed_seed=1)
ORDERS: list[tuple[str, dict[str, Any]]] = [
    ("time_collectives", {"kind": "all_reduce", "payload_bytes": 65536, "count": 4, "in_flight": 2}),
    ("time_collectives", {"kind": "all_gather", "payload_bytes": 4, "dtype": "bfloat16"}),
    ("time_collectives", {"kind": "reduce_scatter", "payload_bytes": 4099, "count": 3, "in_flight": 9}),
    ("time_collectives", {"kind": "all_to_all", "payload_bytes": 8192, "after_work": True, "count": 2}),
    ("time_coalesced_calls", {"payload_bytes": 4096, "values": 4, "count": 2}),
    ("time_point_to_point", {"payload_bytes": 4096, "shift": 3, "count": 4, "in_flight": 4}),
    ("time_copies", {"layout": "transpose", "payload_bytes": 65536, "width": 16}),
    ("time_copies", {"layout": "shuffle", "payload_bytes": 65536, "width": 3, "count": 2}),
    ("time_copies", {"layout": "repeat", "payload_bytes": 4096, "times": 5}),
    ("time_copies", {"layout": "join", "payload_bytes": 4096}),
    ("time_copies", {"layout": "join", "payload_bytes": 8192, "count": 16}),
    ("time_arithmetic", {"operation": "sum", "payload_bytes": 4098, "parts": 7}),
    ("time_arithmetic", {"operation": "scale", "payload_bytes": 2**24}),
    ("time_arithmetic", {"operation": "cast", "payload_bytes": 4, "count": MOST}),
    ("time_graphs", {"graphs": 1}),
    ("time_graphs", {"graphs": 5, "inside": "scale", "alike": False}),
    ("time_graphs", {"graphs": 3, "inside": "all_reduce"}),
    ("time_mixed", {"count": 3, "first": 2}),
]


def probes(tool: str, place: ProbeTarget = PLACE, **given: Any) -> list[Probe]:
    order = order_of(tool, given)
    assert order is not None
    return order.probes(place)


@pytest.mark.parametrize("place", [PLACE, TWO_NODES, COMPILED], ids=["called", "two nodes", "compiled"])
def test_every_order_makes_legal_probes_with_names_of_their_own(place: ProbeTarget) -> None:
    made = [probe for tool, given in ORDERS for probe in probes(tool, place, **given)]
    assert len({p.name for p in made}) == len({p.program.digest for p in made}) == len(made)
    for probe in made:
        walk(probe.program)
        assert probe.role is (ProbeRole.MIXED if probe.name.startswith("mixed-") else ProbeRole.STRUCTURED)
    assert {tool for tool, _ in ORDERS} == {tool.name for tool in tools(place)}


def test_equal_names_are_equal_programs_also_those_of_the_sweep() -> None:
    """They are keys of one launch, in which both are timed."""
    sweep = {p.name: p.program.digest for p in probes_of(LOCAL, read(ROOT / "config/config.yaml"))}
    for tool, given in ORDERS:
        for probe in probes(tool, **given):
            assert sweep.get(probe.name, probe.program.digest) == probe.program.digest
    scaled = probes("time_arithmetic", operation="scale", payload_bytes=2**24)
    assert scaled[0].program.digest in sweep.values()  # so this test can fail
    names = {
        p[0].name for p in (probes("time_graphs", graphs=1, payload_bytes=n) for n in (1024, 1025, 1026))
    }
    assert len(names) == 3


def test_depth_payload_type_and_groups_are_as_ordered() -> None:
    [probe] = probes("time_collectives", kind="all_reduce", payload_bytes=65536, count=6, in_flight=3)
    starts = [step.in_flight for step in as_run(probe.program) if step.action is Action.START]
    assert starts == [0, 1, 2, 2, 2, 2]
    assert {payload_bytes(x) for x in probe.program.collectives} == {65536}
    [half] = probes(
        "time_collectives", kind="all_gather", payload_bytes=64, groups="halves", dtype="bfloat16"
    )
    [node] = half.program.collectives
    assert node.groups.members == ((0, 1), (2, 3)) and node.dtype is DType.BFLOAT16
    [sent] = probes("time_point_to_point", payload_bytes=4096, shift=3, count=2)
    assert {x.sources for x in sent.program.collectives} == {(1, 2, 3, 0)}
    [moved] = probes("time_collectives", kind="all_reduce", payload_bytes=4096, after_work=True)
    assert any(column.name == "after_work.bytes" for column in features(moved.program))


def test_random_programs_are_those_of_the_sweep_and_never_held_out() -> None:
    settings = read(ROOT / "config/config.yaml")
    drawn = {p.program.digest for p in probes("time_mixed", count=16)}
    of = {
        role: {p.program.digest for p in probes_of(LOCAL, settings) if p.role is role} for role in ProbeRole
    }
    assert drawn < of[ProbeRole.MIXED] and not drawn & of[ProbeRole.HELD_OUT]


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("time_collectives", {"kind": "all_reduce", "payload_bytes": 2**40}, "16777216 .*1099511627776"),
        ("time_collectives", {"kind": "all_reduce", "payload_bytes": 0}, "payload_bytes: .*got 0"),
        ("time_collectives", {"kind": "all_reduce", "payload_bytes": "64KiB"}, "payload_bytes: .*64KiB"),
        ("time_collectives", {"kind": "all_reduce", "payload_bytes": 64, "us": 3.2}, "us: .*no such field"),
        ("time_collectives", {"kind": "all_recude", "payload_bytes": 64}, "kind: .*'all_recude'"),
        ("time_collectives", {"payload_bytes": 64}, "kind: must be there"),
        (
            "time_collectives",
            {"kind": "all_reduce", "payload_bytes": 64, "groups": "within-nodes"},
            "groups: .*'within-nodes'",
        ),
        ("time_collectives", {"kind": "all_reduce", "payload_bytes": 64, "count": 33}, "count: .*got 33"),
        (
            "time_collectives",
            {"kind": "all_gather", "payload_bytes": 8, "after_work": True},
            r"4 elements .*\(got 1\)",
        ),
        ("time_coalesced_calls", {"payload_bytes": 2**23, "values": 3}, r"16777216 .*got 25165824"),
        ("time_point_to_point", {"payload_bytes": 64, "shift": 4}, "shift must be below 4"),
        ("time_copies", {"layout": "repeat", "payload_bytes": 2**20, "times": 32}, "got 33554432"),
        ("time_copies", {"layout": "shuffle", "payload_bytes": 2**24}, "262144 rows.*4194304"),
        ("time_copies", {"layout": "transpose", "payload_bytes": 64, "width": 16}, r"rows .*\(got 1\)"),
        ("time_mixed", {"count": 17}, "count: .* 16 .*got 17"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        probes(tool, **given)
    assert "\n" not in str(error.value)


def test_what_the_library_lacks_or_a_rank_cannot_hold_is_refused() -> None:
    [lacking] = probes("time_coalesced_calls", payload_bytes=64, values=2)
    assert "selftest did not try" in refusal(lacking, CAN, LOCAL)
    [large] = probes("time_collectives", kind="all_reduce", payload_bytes=2**24, count=32)
    said = refusal(large, CAN, LOCAL)
    assert "1073741824 bytes" in said and "at most 536870912" in said
    [fits] = probes("time_collectives", kind="all_reduce", payload_bytes=2**24, count=16)
    assert refusal(fits, CAN, LOCAL) == ""


def test_schemas_hold_the_bounds_of_the_deployment_and_every_order_has_their_form() -> None:
    schemas = {tool.name: tool.schema for tool in tools(TWO_NODES)}
    assert schemas["time_collectives"]["properties"]["groups"]["enum"] == [
        *("world", "within-nodes", "across-nodes")
    ]
    assert schemas["time_collectives"]["properties"]["payload_bytes"]["maximum"] == 2**24
    assert schemas["time_point_to_point"]["properties"]["shift"]["maximum"] == 3
    for tool, given in ORDERS:
        assert Draft202012Validator(schemas[tool]).is_valid(given), (tool, given)
        assert not Draft202012Validator(schemas[tool]).is_valid(given | {"us": 3.2})
        assert all("description" in field for field in schemas[tool]["properties"].values())


def test_a_question_for_support_is_of_the_call_that_would_be_timed() -> None:
    asked = Supports.from_data({"kind": "collective_permute", "payload_bytes": 64, "shift": 3})
    assert [x.kind for x in asked.probe(PLACE).program.collectives] == [Kind.COLLECTIVE_PERMUTE]
    assert bounded(Supports, PLACE)["properties"]["groups"]["enum"] == ["world", "halves"]
