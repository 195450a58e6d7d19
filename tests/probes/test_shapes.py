"""Shape probes: what they show, whatever the deployment, and that no Problem is in their list."""

from itertools import pairwise

import pytest

from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.costmodel.features import Increment, features
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.probes.shapes import pairs, shape_probes
from overlayccl_core.probes.structured import structured_probes, subgroups
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.lowering import Action
from overlayccl_core.program.program import Program
from overlayccl_core.program.run_order import as_run
from overlayccl_core.program.segments import walk
from tests.on_ranks import here

FOUR = here(4)


def nodes_of(ranks: int, per_node: int, *, uniform: bool = False) -> Deployment:
    tiers = [Tier(name="node", ranks=per_node)] * (per_node > 1)
    tiers += [Tier(name="network", ranks=ranks)] * (per_node < ranks)
    return FOUR.changed(ranks=ranks, ranks_per_node=per_node, tiers=tuple(tiers), uniform=uniform)


TWO_BY_TWO = nodes_of(4, 2)


def named(text: str, deployment: Deployment = FOUR) -> list[Probe]:
    return [p for p in shape_probes(deployment) if text in p.name]


def in_flight(program: Program) -> list[int]:
    return [step.in_flight for step in as_run(program) if step.action is Action.START]


def payloads(name: str) -> set[str]:
    return {p.name.rpartition("-")[2] for p in named(name)}


@pytest.mark.parametrize("uniform", [False, True], ids=["called", "compiled"])
@pytest.mark.parametrize("ranks, per_node", [(2, 2), (4, 4), (4, 2), (6, 3), (7, 1), (64, 32)])
def test_they_are_legal_programs_that_the_structured_ones_are_not(
    ranks: int, per_node: int, uniform: bool
) -> None:
    deployment = nodes_of(ranks, per_node, uniform=uniform)
    probes = shape_probes(deployment)
    everything = [*probes, *structured_probes(deployment)]
    assert len({p.program.digest for p in everything}) == len({p.name for p in everything}) == len(everything)
    for probe in probes:
        walk(probe.program)
        assert probe.role is ProbeRole.SHAPE


def test_about_forty_for_one_node() -> None:
    assert 30 <= len(shape_probes(FOUR)) <= 45


def test_up_to_all_shifts_of_a_permute_go_together() -> None:
    """As an exchange of one block for each other rank does: two blocks, and all three."""
    of = {p.name: p.program for p in named("-shifts-")}
    assert {tuple(in_flight(p)) for p in of.values()} == {(0, 1), (0, 1, 2)}
    assert {x.sources[0] for x in of["collective_permute-shifts-3x64KiB"].collectives} == {1, 2, 3}
    assert not named("-shifts-", nodes_of(2, 2))


@pytest.mark.parametrize("uniform", [False, True], ids=["called", "compiled"])
def test_in_a_chain_each_permute_sends_what_the_one_before_received(uniform: bool) -> None:
    chains = named("-chain-", FOUR.changed(uniform=uniform))
    assert {len(p.program.collectives) for p in chains} == {2, 3, 4}
    for probe in chains:
        calls = probe.program.collectives
        assert all(after.operands == (before,) for before, after in pairwise(calls))
        assert set(in_flight(probe.program)) == {0}


def test_every_other_kind_follows_a_permute() -> None:
    assert {tuple(x.kind for x in p.program.collectives) for p in named("-permute-then-")} == {
        (Kind.COLLECTIVE_PERMUTE, kind) for kind in COLLECTIVES[:-1]
    }


@pytest.mark.parametrize(
    ("ranks", "per_node", "found"),
    [
        (4, 4, {"opposite": ((0, 2), (1, 3))}),
        (4, 2, {"opposite": ((0, 2), (1, 3)), "neighbour": ((0, 1), (2, 3))}),
        (8, 2, {"neighbour": ((0, 1), (2, 3), (4, 5), (6, 7))}),
        (2, 2, {}),
        (7, 1, {}),
    ],
)
def test_pairs_are_of_two_halves_and_of_neighbours_on_a_node(
    ranks: int, per_node: int, found: dict[str, tuple[tuple[int, int], ...]]
) -> None:
    assert {name: groups.members for name, groups in pairs(nodes_of(ranks, per_node)).items()} == found


def test_pairs_work_side_by_side_once_and_four_times_in_a_row() -> None:
    for kind in COLLECTIVES[:-1]:
        programs = [p.program for p in named(f"{kind.value}-opposite-pairs")]
        assert sorted(in_flight(p) for p in programs) == [[0], [0, 0, 0, 0]]
        assert all(len(x.groups.members) == 2 for p in programs for x in p.collectives)


def test_many_small_gathers_and_what_is_transposed_of_them_are_all_in_flight() -> None:
    for kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER):
        assert [in_flight(p.program) for p in named(f"{kind.value}-many-small")] == [[*range(8)]] * 2


def test_a_call_of_a_few_kilobytes_stands_between_two_computations() -> None:
    for probe in named("-between-computations-"):
        actions = [step.action for step in as_run(probe.program)]
        at = actions.index(Action.START)
        assert Action.ROWWISE in actions[:at] and Action.ROWWISE in actions[at:]
        assert {c.name: v for c, v in features(probe.program).items()}["after_work.bytes"] > 2**21


def test_calls_of_several_megabytes_are_told_from_small_ones_of_every_kind_and_reach() -> None:
    for deployment in (FOUR, TWO_BY_TWO):
        probes = [*shape_probes(deployment), *structured_probes(deployment)]
        columns = {c.name for p in probes for c in features(p.program) if c.increment is Increment.LARGE}
        grouped = {name for name in columns if not name.startswith("collective_permute")}
        assert len(grouped) == (1 + len(subgroups(deployment))) * len(COLLECTIVES[:-1])
    assert payloads("all_reduce-large") == {"1x4MiB", "1x16MiB"}
