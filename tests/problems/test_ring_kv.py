"""ring_kv: Cases, placements, segments."""

from overlayccl_core import catalog
from overlayccl_core.program.case import Case

ENTRY = {"heads": 4, "sequence": 256, "head_dim": 16}


def at(ranks: int = 4, **change: object) -> Case:
    return catalog.case("ring_kv", {**ENTRY, **change}, ranks=ranks, ranks_per_node=ranks)


def test_keys_and_values_are_given_together_and_needed_together() -> None:
    problem = catalog.build(at())
    projection, attention = problem.segments
    assert projection.gives == (("shard", 0), ("shard", 1))
    assert attention.needs == (("full", 0), ("full", 1))
    assert problem.inputs["shard", 0].shape == (4, 64, 16)
    assert problem.outputs["full", 1].shape == (4, 256, 16)
