"""Features without a part: what is left out, and what counts elsewhere instead."""

from overlayccl_core.costmodel.ablation import NOTHING, TIERS, at_theta_of, parts_of, without
from overlayccl_core.costmodel.features import Features, Term, features
from overlayccl_core.probes.probe import ProbeBuilder
from overlayccl_core.program.groups import contiguous, strided
from overlayccl_core.program.kinds import Kind


def counted(ranks_per_node: int) -> Features:
    """Two sums in flight, within halves and across them, then an exchange of all."""
    probe = ProbeBuilder(4, ranks_per_node)
    for groups in (contiguous(4, 2), strided(4, 2)):
        probe.write(probe.issue(Kind.ALL_REDUCE, probe.read(8), groups))
    made = [probe.issue(Kind.ALL_TO_ALL, probe.read(16)) for _ in range(2)]
    for x in made:
        probe.write(x)
    return features(probe.finish("p").program)


def names(found: Features) -> dict[str, float]:
    return {c.name: v for c, v in found.items() if not c.increment}


def test_a_term_goes_and_the_others_stay() -> None:
    found = counted(4)
    left = without(found, Term.LAUNCH.value)
    assert {c.term for c in found} - {c.term for c in left} == {Term.LAUNCH}
    assert without(found, NOTHING) == found


def test_without_amortization_a_call_beside_others_costs_as_much_as_alone() -> None:
    left = names(without(counted(4), Term.AMORTIZATION.value))
    assert left["all_to_all.node4.alone.count"] == 2 and left["all_to_all.node4.alone.bytes"] == 128
    assert not [name for name in left if ".together." in name]


def test_without_tiers_near_and_far_are_one_and_group_sizes_are_not() -> None:
    left = names(without(counted(2), TIERS))
    assert left["all_reduce.any2.alone.count"] == 2 and left["all_to_all.any4.alone.count"] == 1
    assert not [name for name in left if "network" in name or ".node" in name]
    assert Term.NETWORK not in {c.term for c in without(counted(2), TIERS)}


def test_there_are_tiers_to_leave_out_where_calls_leave_the_node() -> None:
    near, far = parts_of(counted(4)), parts_of(counted(2))
    assert near == (NOTHING, *(t.value for t in (Term.LAUNCH, Term.COLLECTIVES, Term.AMORTIZATION)))
    assert far == (*near, Term.NETWORK.value, TIERS)


def test_another_theta_prices_a_call_on_the_tier_that_it_knows() -> None:
    near, far = counted(4), counted(2)
    assert "all_reduce.network2.alone.count" in names(far) and "all_to_all.network4.alone.count" in names(far)
    left = names(at_theta_of(far, near))
    assert left["all_reduce.node2.alone.count"] == 2 and left["all_to_all.node4.alone.count"] == 1
    assert Term.NETWORK not in {c.term for c in at_theta_of(far, near)}
    assert at_theta_of(far, far) == far
