"""What the probes exercise: every kind, alone and together, at sizes that the mixed Programs do not have."""

from collections import Counter
from functools import cache
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from overlayccl_core.backends.torchdist import backend as torchdist
from overlayccl_core.backends.torchxla import backend as torchxla
from overlayccl_core.configuration.deployment import Deployment, Tier, load
from overlayccl_core.configuration.settings import read
from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.fit import FitSettings, Observation, _System
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Probe, ProbeBuilder, ProbeRole, operand_size
from overlayccl_core.probes.shapes import shape_probes
from overlayccl_core.probes.structured import structured_probes, subgroups
from overlayccl_core.probes.sweep import probes_of, to_time
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.program.run_order import as_run
from overlayccl_core.program.segments import walk
from tests.on_ranks import here
from tests.stages.flow import ROOT, capabilities

FOUR = here(4)
TWO_NODES = FOUR.changed(
    ranks=6, ranks_per_node=3, tiers=(Tier(name="node", ranks=3), Tier(name="network", ranks=6))
)

EIGHT = FOUR.changed(ranks=8, ranks_per_node=8, tiers=(Tier(name="node", ranks=8),))


@cache
def structured(*, uniform: bool = False) -> list[Probe]:
    return structured_probes(FOUR.changed(uniform=uniform))


def starts(program: Program) -> list[int]:
    """Collectives outstanding when each starts."""
    return [step.in_flight for step in as_run(program) if step.action is Action.START]


@pytest.mark.parametrize(
    "deployment",
    [FOUR, TWO_NODES, FOUR.changed(ranks=2, ranks_per_node=2, tiers=(Tier(name="node", ranks=2),))],
)
def test_probes_are_legal_programs_with_names_of_their_own(deployment: Deployment) -> None:
    probes = structured_probes(deployment)
    assert len({p.name for p in probes}) == len({p.program.digest for p in probes}) == len(probes)
    for probe in probes:
        walk(probe.program)


@pytest.mark.parametrize("of", [torchdist, torchxla], ids=["torchdist", "torchxla"])
def test_every_probe_is_printed_as_python(of: ModuleType) -> None:
    """One of each kind and way; others differ in sizes."""
    probes = {
        p.name.rpartition("-")[0]: p for p in structured_probes(TWO_NODES.changed(uniform=of is torchxla))
    }
    for probe in probes.values():
        compile(of.emit(probe.program), probe.name, "exec")


def test_about_a_hundred_and_fifty_probes_for_one_node() -> None:
    assert 100 <= len(structured()) <= 160


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_every_kind_is_probed_alone_together_and_in_a_pipeline(kind: Kind) -> None:
    of_kind = [p for p in structured() if p.name.startswith(f"{kind.value}-world")]
    alone = [p for p in of_kind if "-alone-" in p.name]
    together = [p for p in of_kind if "-together-" in p.name]
    pipeline = [p for p in of_kind if "-pipeline-" in p.name]
    assert all(set(starts(p.program)) == {0} for p in alone)
    assert all(starts(p.program) == list(range(len(starts(p.program)))) for p in together)
    assert [starts(p.program) for p in pipeline] == [[0, 1, 1, 1, 1, 1]]
    for some in (alone, together):
        assert len({payload_bytes(p.program.collectives[0]) for p in some}) >= 4


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_in_compiled_graphs_what_reads_what_tells_alone_from_together(kind: Kind) -> None:
    of_kind = [p for p in structured(uniform=True) if f"{kind.value}-" in p.name]
    for probe in of_kind:
        after = {"-together-": range(20), "-pipeline-": [0, 1] * 3, "-coalesced-": range(20)}
        wanted = next((some for way, some in after.items() if way in probe.name), [0] * 20)
        if "-graphs" not in probe.name and "-graph-each" not in probe.name:
            assert starts(probe.program) == list(wanted)[: len(starts(probe.program))], probe.name
    names = {p.name.partition("x")[0] for p in of_kind}
    assert f"{kind.value}-world-alone-4" in names and f"{kind.value}-world-together-12" in names


def test_in_compiled_graphs_a_call_of_every_group_is_probed_in_a_graph_of_its_own() -> None:
    """Of several in one, none tells what a call takes: the first brings the graph's own time along."""
    for deployment in (FOUR, TWO_NODES):
        probes = structured_probes(deployment.changed(uniform=True))
        single = {(x.kind, x.groups) for p in probes for x in p.program.collectives[:1] if is_single(p)}
        shapes = [world(deployment.ranks), *subgroups(deployment).values()]
        grouped = [k for k in COLLECTIVES if k is not Kind.COLLECTIVE_PERMUTE]
        assert single >= {(kind, groups) for kind in grouped for groups in shapes}


def is_single(probe: Probe) -> bool:
    [*calls] = probe.program.collectives
    return len(calls) == 1 and calls[0].kind is not Kind.COLLECTIVE_PERMUTE


def test_groups_within_and_across_nodes_are_probed_where_there_are_nodes() -> None:
    assert {name: g.members for name, g in subgroups(TWO_NODES).items()} == {
        "within-nodes": ((0, 1, 2), (3, 4, 5)),
        "across-nodes": ((0, 3), (1, 4), (2, 5)),
    }
    assert [g.members for g in subgroups(FOUR).values()] == [((0, 1), (2, 3))]


def test_a_permute_of_subgroups_stays_inside_them() -> None:
    probe = ProbeBuilder(4, 4)
    node = probe.issue(Kind.COLLECTIVE_PERMUTE, probe.read(8), subgroups(FOUR)["halves"])
    assert node.sources == (1, 0, 3, 2)


def test_permutes_go_through_all_shifts() -> None:
    together = next(p for p in structured() if p.name.startswith("collective_permute-world-together-4x"))
    assert {x.sources[0] for x in together.program.collectives} == {1, 2, 3}
    mixed_ones = [x for p in mixed(3) for x in p.program.collectives if x.kind is Kind.COLLECTIVE_PERMUTE]
    assert {x.sources[0] for x in mixed_ones} == {1, 2, 3}


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_the_larger_side_of_a_probed_collective_has_the_payload(kind: Kind) -> None:
    probe = ProbeBuilder(4, 4)
    node = probe.issue(kind, probe.read(operand_size(kind, 1000, 4)))
    assert payload_bytes(node) == 4000


@cache
def mixed(seed: int, count: int = 60) -> list[Probe]:
    return mixed_probes(FOUR, seed=seed, count=count, role=ProbeRole.MIXED)


def test_mixed_programs_depend_on_seed_and_number_alone() -> None:
    assert [p.program.digest for p in mixed(1, 20)] == [p.program.digest for p in mixed(1)[:20]]
    assert not {p.program.digest for p in mixed(1)} & {p.program.digest for p in mixed(2)}


def test_mixed_programs_are_legal_and_of_one_to_eight_collectives() -> None:
    probes = mixed(3, 120)
    assert {len(p.program.collectives) for p in probes} == set(range(1, 9))
    for probe in probes:
        walk(probe.program)


def test_kinds_are_uniform_and_sizes_log_uniform_off_the_grid() -> None:
    nodes = [x for p in mixed(3, 200) for x in p.program.collectives]
    counts = Counter(x.kind for x in nodes)
    assert min(counts[k] for k in COLLECTIVES) > 0.7 * len(nodes) / len(COLLECTIVES)
    logs = np.log2([payload_bytes(x) / x.dtype.bytes for x in nodes])
    assert logs.min() >= 8 and logs.max() <= 19.01
    quarters = np.histogram(logs, bins=4)[0]
    assert quarters.min() > 0.7 * len(nodes) / 4
    grid = {payload_bytes(x) for p in structured() for x in p.program.collectives}
    assert not grid & {payload_bytes(x) for x in nodes}


def test_mixed_programs_have_several_in_flight_and_local_work_between() -> None:
    probes = mixed(3, 100)
    assert sum(max(starts(p.program), default=0) >= 1 for p in probes) > 40
    local = {Action.COPY, Action.SUM, Action.SCALE, Action.CAST}
    assert sum(any(s.action in local for s in lower(p.program)) for p in probes) > 50
    assert sum(any(s.action is Action.BOUNDARY for s in lower(p.program)) for p in probes) > 10


@pytest.mark.parametrize(
    "without", [(), (Kind.COLLECTIVE_PERMUTE, Kind.ALL_TO_ALL)], ids=["all", "three kinds"]
)
@pytest.mark.parametrize("uniform", [False, True], ids=["called", "compiled"])
@pytest.mark.parametrize("deployment", [FOUR, EIGHT, TWO_NODES], ids=["one node", "eight ranks", "two nodes"])
def test_what_the_probes_cost_can_be_told_apart(
    deployment: Deployment, without: tuple[Kind, ...], uniform: bool
) -> None:
    """Also where a library lacks kinds: no column that the fit must take lies in the span of the others."""
    deployment = deployment.changed(uniform=uniform)
    mixed = mixed_probes(deployment, seed=1, count=40, role=ProbeRole.MIXED)
    probes = [*structured_probes(deployment), *shape_probes(deployment), *mixed]
    kept = [p for p in probes if not {x.kind for x in p.program.collectives} & set(without)]
    random = np.random.default_rng(0)
    seen = [
        Observation(
            features=(counted := features(p.program)),
            time_us=sum(counted.values()) ** 0.5 * random.uniform(0.9, 1.1),
            judges=p.role.judges,
        )
        for p in kept
    ]
    assert sum(one.judges for one in seen) >= 6
    system = _System(seen, (), FitSettings().ridge)
    assert [c.name for c, told in zip(system.columns, system.told_apart(), strict=True) if not told] == []


def test_the_sweep_leaves_out_what_the_library_cannot_run_and_says_so() -> None:
    settings, here_ = read(ROOT / "config/config.yaml"), load(ROOT / "config/deployments/local.yaml")
    tried = capabilities().filter(pl.col("operation") != Kind.COLLECTIVE_PERMUTE.value)
    told: list[str] = []
    kept = to_time(here_, settings, Capabilities.from_rows(tried.iter_rows(named=True)), told.append)
    assert Kind.COLLECTIVE_PERMUTE in {
        x.kind for p in probes_of(here_, settings) for x in p.program.collectives
    }
    assert Kind.COLLECTIVE_PERMUTE not in {x.kind for p in kept for x in p.program.collectives}
    assert len(kept) + len(told) == len(probes_of(here_, settings))
    assert any("collective_permute-world" in line and "selftest did not try" in line for line in told)
