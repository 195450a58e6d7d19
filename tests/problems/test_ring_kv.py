"""ring_kv: Cases, placements, segments."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import ring_kv
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Placement

ENTRY = {"heads": 4, "sequence": 256, "head_dim": 16}


def at(ranks: int = 4, **change: object) -> Case:
    return catalog.case("ring_kv", {**ENTRY, **change}, ranks=ranks, ranks_per_node=ranks)


def test_a_case_is_named_by_heads_positions_and_the_bytes_of_the_keys() -> None:
    case = at()
    assert case.id == "ring_kv/n4-h4-s256-64KiB-f32"
    assert ring_kv.payload_bytes(case) == 2 * 64 * 1024
    assert ring_kv.bus_factor(case) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sequence": 255}, "sequence .*255 over 4.* 256"),
        ({"heads": 0}, "heads: .* 1 .got 0"),
        ({"width": 1}, "width: .*no such field"),
    ],
)
def test_a_wrong_field_is_named_with_the_mend(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"ring_kv: {message}"):
        at(**change)


def test_keys_and_values_are_given_together_and_needed_together() -> None:
    problem = catalog.build(at())
    projection, attention = problem.segments
    assert projection.gives == (("shard", 0), ("shard", 1))
    assert attention.needs == (("full", 0), ("full", 1))
    assert problem.inputs["shard", 0].shape == (4, 64, 16)
    assert problem.outputs["full", 1].shape == (4, 256, 16)


def test_pieces_differ_and_every_rank_has_its_own_part_of_a_whole_gradient() -> None:
    problem = catalog.build(at())
    shard, full = problem.inputs["shard", 0], problem.outputs["full", 0]
    assert (shard.placement, shard.cotangent) == (Placement.VARYING, Placement.VARYING)
    assert (full.placement, full.cotangent) == (Placement.REPLICATE, Placement.PARTIAL)


def test_a_proxy_has_two_heads_and_as_many_positions_as_divide_over_fewer_ranks() -> None:
    large = catalog.case("ring_kv", {**ENTRY, "sequence": 258}, ranks=6, ranks_per_node=6)
    small = catalog.proxy(large)
    assert small is not None and (small.ranks, small["heads"], small["sequence"]) == (4, 2, 260)
    assert small["head_dim"] == 16
    assert catalog.proxy(small) is None
