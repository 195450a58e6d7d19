"""layer_block_ar: Cases, placements, segments."""

from overlayccl_core import catalog
from overlayccl_core.program.case import Case

ENTRY = {"microbatches": 1, "layers": 2, "shape": [1, 64, 128]}


def at(**change: object) -> Case:
    return catalog.case("layer_block_ar", {**ENTRY, **change}, ranks=4, ranks_per_node=4)


def test_a_block_gives_both_its_partial_sums_and_needs_the_one_total_before_it() -> None:
    problem = catalog.build(at())
    assert {s.name: (s.needs, s.gives) for s in problem.segments} == {
        ("block", 0, 0): ((), (("partial", 0, 0, 0), ("partial", 0, 0, 1))),
        ("block", 0, 1): (
            (("total", 0, 0),),
            (("partial", 0, 1, 0), ("partial", 0, 1, 1)),
        ),
        ("loss", 0): ((("total", 0, 1),), ()),
    }
