"""Features, counted against hand counts."""

import time

import pytest

from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.costmodel.features import (
    CACHED_BYTES,
    Increment,
    Term,
    features,
    step_features,
)
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeBuilder, ProbeRole, resized
from overlayccl_core.program import maps, nodes
from overlayccl_core.program.groups import contiguous, groups_of
from overlayccl_core.program.kinds import COLLECTIVES, DType, Kind
from overlayccl_core.program.lowering import Action
from overlayccl_core.program.maps import Map
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import RowAttr
from tests.on_ranks import here


def counted(program: Program) -> dict[str, float]:
    """The columns that every fit has."""
    return {c.name: v for c, v in features(program).items() if c.increment is Increment.NONE}


def done(probe: ProbeBuilder) -> Program:
    return probe.finish("p").program


def test_a_program_that_does_nothing_has_one_graph_and_no_more() -> None:
    probe = ProbeBuilder(4, 4)
    probe.write(probe.read(8))
    assert counted(done(probe)) == {"graph.first.count": 1}


def test_each_collective_that_is_waited_for_at_once_is_alone() -> None:
    probe = ProbeBuilder(4, 4)
    for _ in range(3):
        probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(10)))
    assert counted(done(probe)) == {
        "graph.first.count": 1,
        "all_reduce.node4.alone.count": 3,
        "all_reduce.node4.alone.bytes": 120,
        "wait.count": 3,
    }


def test_a_call_of_several_values_is_one_with_the_bytes_of_all() -> None:
    probe = ProbeBuilder(4, 4)
    calls = [
        probe.issue_call(Kind.ALL_REDUCE, [probe.read(n) for n in sizes]) for sizes in ((10, 5), (1, 2, 3))
    ]
    for y in [y for call in calls for y in call]:
        probe.write(y)
    assert counted(done(probe)) == {
        "graph.first.count": 1,
        "all_reduce.node4.alone.count": 1,
        "all_reduce.node4.alone.bytes": 60,
        "all_reduce.node4.together.count": 1,
        "all_reduce.node4.together.bytes": 24,
        "all_reduce_coalesced.count": 5,
        "all_reduce_coalesced.bytes": 84,
        "wait.count": 1,
    }


def test_collectives_that_start_while_others_are_outstanding_are_together() -> None:
    probe = ProbeBuilder(4, 4)
    made = [
        probe.issue(kind, probe.read(8)) for kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)
    ]
    for x in made:
        probe.write(x)
    assert counted(done(probe)) == {
        "graph.first.count": 1,
        "all_gather.node4.alone.count": 1,
        "all_gather.node4.alone.bytes": 8 * 4 * 4,  # the gathered side
        "reduce_scatter.node4.together.count": 1,
        "reduce_scatter.node4.together.bytes": 32,
        "all_to_all.node4.together.count": 1,
        "all_to_all.node4.together.bytes": 32,
        "wait.count": 1,  # once the first is there, nothing new has been started
    }


def test_a_pipeline_waits_once_for_each_start_but_one() -> None:
    probe = ProbeBuilder(4, 4)
    inputs = [probe.read(8) for _ in range(4)]
    before = probe.issue(Kind.COLLECTIVE_PERMUTE, inputs[0])
    for x in inputs[1:]:
        made = probe.issue(Kind.COLLECTIVE_PERMUTE, x)
        probe.write(before)
        before = made
    probe.write(before)
    amounts = counted(done(probe))
    assert amounts["collective_permute.node.alone.count"] == 1
    assert amounts["collective_permute.node.together.count"] == 3
    assert amounts["wait.count"] == 3


def test_a_permute_beside_another_is_counted_apart_and_one_beside_other_kinds_is_not() -> None:
    """Three permutes and a sum; then a sum, and two permutes: the first has come before the second starts."""
    probe = ProbeBuilder(4, 4)
    kinds = (Kind.COLLECTIVE_PERMUTE, Kind.ALL_REDUCE, Kind.COLLECTIVE_PERMUTE, Kind.COLLECTIVE_PERMUTE)
    for x in [probe.issue(kind, probe.read(8)) for kind in kinds]:
        probe.write(x)
    total, first = (probe.issue(kind, probe.read(8)) for kind in (Kind.ALL_REDUCE, Kind.COLLECTIVE_PERMUTE))
    probe.write(first)
    probe.write(probe.issue(Kind.COLLECTIVE_PERMUTE, probe.read(8)))
    probe.write(total)
    amounts = {c.name: v for c, v in features(done(probe)).items()}
    assert amounts["collective_permute.further.count"] == 2
    assert amounts["collective_permute.node.together.count"] == 4


def test_where_ranks_compile_permutes_of_one_depth_are_beside_each_other() -> None:
    probe = ProbeBuilder(4, 4, uniform=True)
    x, y = (probe.issue(Kind.COLLECTIVE_PERMUTE, probe.read(8)) for _ in range(2))
    probe.write(probe.issue(Kind.COLLECTIVE_PERMUTE, x, shift=2))
    probe.write(y)
    assert {c.name: v for c, v in features(done(probe)).items()}["collective_permute.further.count"] == 1


@pytest.mark.parametrize(("elements", "beyond"), [(2**18, None), (2**18 + 4, 16), (2**20, 3 * 2**20)])
def test_the_bytes_of_a_call_beyond_a_mebibyte_are_counted_apart(elements: int, beyond: int | None) -> None:
    probe = ProbeBuilder(4, 4)
    probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(elements)))
    assert {c.name: v for c, v in features(done(probe)).items()}.get("all_reduce.node4.large.bytes") == beyond


def test_exponentials_and_logarithms_have_a_column_of_their_own() -> None:
    probe = ProbeBuilder(2, 2)
    for name in ("exp", "log"):
        probe.write(nodes.make_rowwise(RowAttr(name=name), [probe.read(256)]))
    assert counted(done(probe)) == {"graph.first.count": 1, "exp.count": 2, "exp.bytes": 2048}


@pytest.mark.parametrize(
    ("name", "first", "products", "seen"),
    [
        ("attend", (3,), 2, 4),
        ("attend_backward", (3,), 5, 4),
        ("attend", (-3, 0), 2, 3),
        ("attend", (-3,), 2, 0),
    ],
)
def test_attention_counts_by_its_products_of_the_rank_that_sees_the_most_keys(
    name: str, first: tuple[int, ...], products: int, seen: int
) -> None:
    probe = ProbeBuilder(2, 2)
    heads, queries, keys, width = 2, 3, 4, 5
    q, k = probe.read(heads * queries * width), probe.read(heads * keys * width)
    more = [q, probe.read(heads * queries), q] if name == "attend_backward" else []
    attr = RowAttr(name=name, width=width, first=first, heads=heads)
    probe.write(nodes.make_rowwise(attr, [q, k, k, *more]))
    assert counted(done(probe)) == {
        "graph.first.count": 1,
        "attend.count": 1,
        "attend.multiplied": products * heads * queries * seen * width,
    }


def test_increments_count_the_second_and_up_to_the_eighth_of_a_run() -> None:
    probe = ProbeBuilder(4, 4)
    made = [probe.issue(Kind.ALL_REDUCE, probe.read(8)) for _ in range(11)]
    for x in made:
        probe.write(x)
    amounts = {c.increment: v for c, v in features(done(probe)).items() if c.increment is not Increment.NONE}
    assert amounts == {Increment.SECOND: 1, Increment.TO_EIGHTH: 7}


def test_collectives_are_told_apart_by_group_size_and_by_whether_they_leave_the_node() -> None:
    probe = ProbeBuilder(4, 2)
    inputs = [probe.read(8) for _ in range(4)]
    probe.write(probe.issue(Kind.ALL_REDUCE, inputs[0], contiguous(4, 2)))
    probe.write(probe.issue(Kind.ALL_REDUCE, inputs[1], groups_of([(0, 2), (1, 3)], 4)))
    probe.write(probe.issue(Kind.ALL_REDUCE, inputs[2]))
    probe.write(probe.issue(Kind.COLLECTIVE_PERMUTE, inputs[3], contiguous(4, 2)))
    amounts = counted(done(probe))
    assert [amounts[f"all_reduce.{reach}.alone.count"] for reach in ("node2", "network2", "network4")] == [
        1,
        1,
        1,
    ]
    assert amounts["collective_permute.node.alone.count"] == 1
    # the two pairs send 32 bytes each, the ring of all four 3/2 of that
    [through] = [v for c, v in features(done(probe)).items() if c.increment is Increment.NETWORK_CARD]
    assert through == pytest.approx(2 * 32 + 48)


def four(schedule: str, *, uniform: bool) -> Program:
    """Four gathers of 8 elements: each written at once, all issued first, or each of a part of the one before."""
    probe = ProbeBuilder(4, 4, uniform=uniform)
    made = []
    for number in range(4):
        x = resized(made[-1], 8) if made and schedule == "chained" else probe.read(8)
        made.append(probe.issue(Kind.ALL_GATHER, nodes.make_scale(x, 2 + number)))
        if schedule == "one by one":
            probe.write(made[-1])
    for x in made if schedule == "together" else made[3:] if schedule == "chained" else ():
        probe.write(x)
    return done(probe)


@pytest.mark.parametrize(
    ("schedule", "uniform", "alone", "waits"),
    [
        ("one by one", False, 4, 4),
        ("together", False, 1, 1),
        ("chained", False, 4, 4),
        ("one by one", True, 1, 0),
        ("together", True, 1, 0),
        ("chained", True, 4, 0),
    ],
)
def test_where_ranks_compile_what_reads_what_decides_and_not_the_order_of_calls(
    schedule: str, uniform: bool, alone: int, waits: int
) -> None:
    amounts = counted(four(schedule, uniform=uniform))
    assert amounts["all_gather.node4.alone.count"] == alone
    assert amounts.get("all_gather.node4.together.count", 0) == 4 - alone
    assert amounts.get("wait.count", 0) == waits


def test_local_work_of_a_graph_counts_where_it_can_run_and_not_where_it_is_said() -> None:
    """A copy that only the second of two collectives needs, said before the first or behind it."""
    programs = []
    for first in (True, False):
        probe = ProbeBuilder(4, 4, uniform=True)
        x, y = probe.read(8), probe.read(64)
        copy = nodes.make_view([x], Map(1, 8, [0, 2], [6, 0]))
        issued = [copy, y] if first else [y, copy]
        for operand in issued:
            probe.write(probe.issue(Kind.ALL_REDUCE, operand))
        programs.append(done(probe))
    assert programs[0].digest != programs[1].digest
    assert features(programs[0]) == features(programs[1])
    assert counted(programs[0])["after_work.count"] == 1


def test_boundaries_count_graphs_that_something_runs_in() -> None:
    probe = ProbeBuilder(4, 4)
    for _ in range(2):
        probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(8)))
        probe.boundary()
    amounts = counted(done(probe))
    assert (amounts["graph.first.count"], amounts["graph.next.count"]) == (1, 1)


def test_a_boundary_waits_for_what_is_outstanding() -> None:
    probe = ProbeBuilder(4, 4)
    first = probe.issue(Kind.ALL_REDUCE, probe.read(8))
    probe.boundary()
    second = probe.issue(Kind.ALL_REDUCE, probe.read(8))
    probe.write(first)
    probe.write(second)
    amounts = counted(done(probe))
    assert amounts["all_reduce.node4.alone.count"] == 2
    assert amounts["wait.count"] == 2


def test_collectives_that_come_after_local_work_are_counted_with_its_bytes() -> None:
    """Two of three: what is done after the last comes before the first of the next call."""
    probe = ProbeBuilder(4, 4)
    x, y, z = (probe.read(size) for size in (1024, 512, 256))
    probe.write(probe.issue(Kind.ALL_REDUCE, x))
    probe.write(probe.issue(Kind.ALL_REDUCE, nodes.make_view([y], maps.copies(512, 2))))
    probe.write(nodes.make_sum(probe.issue(Kind.ALL_GATHER, z), 4))
    amounts = counted(done(probe))
    assert amounts["after_work.count"] == 2
    assert amounts["after_work.bytes"] == 4 * (2 * 512 + 4 * 256)


def test_what_comes_before_the_first_and_after_the_last_collective_is_one_gap() -> None:
    probe = ProbeBuilder(4, 4)
    copied = nodes.make_view([probe.read(64)], maps.copies(64, 2))
    probe.write(nodes.make_cast(probe.issue(Kind.ALL_REDUCE, copied), DType.BFLOAT16))
    amounts = counted(done(probe))
    assert amounts["after_work.count"] == 1
    assert amounts["after_work.bytes"] == 4 * 128 + (4 + 2) * 128


def test_local_work_is_counted_by_operation() -> None:
    probe = ProbeBuilder(4, 4)
    x, y, z = (probe.read(1024) for _ in range(3))
    probe.write(nodes.make_sum(x, 4))
    probe.write(nodes.make_scale(y, 3))
    probe.write(nodes.make_cast(z, DType.BFLOAT16))
    assert counted(done(probe)) == {
        "graph.first.count": 1,
        "sum.count": 1,
        "sum.bytes": 4096,
        "scale.count": 1,
        "scale.bytes": 4096,
        "cast.count": 1,
        "cast.bytes": 4096 + 2048,
    }


def test_copies_are_told_apart_by_how_they_are_made_and_aliases_are_free() -> None:
    probe = ProbeBuilder(4, 4)
    x, y = probe.read(1024), probe.read(1024)
    probe.write(nodes.make_view([x], maps.window(512, 256)))
    assert counted(done(probe)) == {"graph.first.count": 1}
    probe.write(nodes.make_view([x, y], maps.identity(2048)))
    probe.write(nodes.make_view([x], maps.permuted((32, 32), (1, 0))))
    shuffled = [(i * 5) % 32 for i in range(32)]
    probe.write(nodes.make_view([y], Map(1, 1024, [32 * i for i in range(32)], [32 * i for i in shuffled])))
    assert counted(done(probe)) == {
        "graph.first.count": 1,
        "copy.count": 1,
        "copy.bytes": 8192,
        "strided.count": 1,
        "strided.bytes": 4096,
        "strided.runs": 1024,
        "gather.count": 1,
        "gather.bytes": 4096,
        "gather.runs": 32,
    }


def test_only_what_a_local_operation_handles_beyond_the_caches_is_uncached() -> None:
    probe = ProbeBuilder(2, 2)
    within, beyond = probe.read(CACHED_BYTES // 4), probe.read(CACHED_BYTES // 4 + 3)
    probe.write(nodes.make_scale(within, 3))
    assert "uncached.bytes" not in counted(done(probe))
    probe.write(nodes.make_scale(beyond, 3))
    assert counted(done(probe))["uncached.bytes"] == 12
    probe.write(probe.issue(Kind.ALL_REDUCE, beyond))
    assert counted(done(probe))["uncached.bytes"] == 12  # a collective's bytes have columns of their own


def test_every_column_has_a_term_and_a_unit() -> None:
    deployment = Deployment(
        name="two",
        backend="torchdist",
        library="gloo",
        ranks=4,
        ranks_per_node=2,
        tiers=(Tier(name="node", ranks=2), Tier(name="network", ranks=4)),
        memory_budget_bytes=2**30,
    )
    probes = mixed_probes(deployment, seed=5, count=40, role=ProbeRole.MIXED)
    columns = {c for p in probes for c in features(p.program)}
    assert {c.term for c in columns} == set(Term)
    assert {c.unit for c in columns} == {"us", "us/B", "us/run"}
    assert {c.name.split(".")[0] for c in columns} >= {k.value for k in COLLECTIVES}


def test_features_of_a_large_program_take_milliseconds() -> None:
    probe = ProbeBuilder(224, 32)
    for _ in range(200):
        probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(224)))
    program = done(probe)
    features(program)  # lowers it
    start = time.process_time()
    features(program)
    assert time.process_time() - start < 0.01


@pytest.mark.parametrize(
    ("kind", "dtype", "narrow"),
    [
        (Kind.ALL_REDUCE, DType.BFLOAT16, 64.0),
        (Kind.REDUCE_SCATTER, DType.FLOAT16, 64.0),
        (Kind.ALL_REDUCE, DType.FLOAT32, 0.0),
        (Kind.ALL_GATHER, DType.BFLOAT16, 0.0),
    ],
)
def test_only_reductions_in_16_bits_count_as_narrow(kind: Kind, dtype: DType, narrow: float) -> None:
    probe = ProbeBuilder(4, 4)
    probe.write(probe.issue(kind, probe.read(32, dtype)))
    amounts = features(probe.finish("one").program)
    assert {c.name: v for c, v in amounts.items()}.get("narrow_reduction.bytes", 0.0) == narrow


def test_the_features_of_all_steps_are_those_of_the_program() -> None:
    for probe in mixed_probes(here(4), seed=3, count=40, role=ProbeRole.MIXED):
        parts: dict[str, float] = {}
        for _, counts in step_features(probe.program):
            for column, amount in counts.items():
                parts[column.name] = parts.get(column.name, 0.0) + amount
        assert parts == {column.name: amount for column, amount in features(probe.program).items()}


def test_work_before_a_call_is_in_its_features_and_the_call_alone_is_in_no_others() -> None:
    probe = ProbeBuilder(4, 4)
    turned = nodes.make_view([probe.read(8)], Map(1, 8, [0, 2], [6, 0]))
    probe.write(probe.issue(Kind.ALL_REDUCE, turned))
    [called] = [counts for step, counts in step_features(done(probe)) if step.action is Action.START]
    assert {column.name: amount for column, amount in called.items()} == {
        "all_reduce.node4.alone.count": 1, "all_reduce.node4.alone.bytes": 32,
        "after_work.count": 1, "after_work.bytes": 32,
    }  # fmt: skip
