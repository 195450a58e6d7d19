"""tp_mlp: Cases, placements, segments."""

from overlayccl_core import catalog
from overlayccl_core.problems import tp_mlp

ENTRY = {"microbatches": 8, "layers": 8, "shape": [1, 64, 128]}


def test_a_block_needs_the_total_before_it_and_the_loss_the_last() -> None:
    problem = tp_mlp.problem(
        catalog.case("tp_mlp", {**ENTRY, "layers": 2, "microbatches": 1}, ranks=4, ranks_per_node=4)
    )
    segments = {s.name: (s.needs, s.gives) for s in problem.segments}
    assert segments == {
        ("block", 0, 0): ((), (("partial", 0, 0),)),
        ("block", 0, 1): ((("total", 0, 0),), (("partial", 0, 1),)),
        ("loss", 0): ((("total", 0, 1),), ()),
    }


def test_the_entry_site_walks_the_layers_backwards() -> None:
    entry = {**ENTRY, "layers": 2, "microbatches": 1, "site": "entry"}
    problem = tp_mlp.problem(catalog.case("tp_mlp", entry, ranks=4, ranks_per_node=4))
    segments = {s.name: (s.needs, s.gives) for s in problem.segments}
    assert segments == {
        ("block", 0, 1): ((), (("partial", 0, 1),)),
        ("block", 0, 0): ((("total", 0, 1),), (("partial", 0, 0),)),
        ("weights", 0, 1): ((), ()),
        ("weights", 0, 0): ((), ()),
        ("front", 0): ((("total", 0, 0),), ()),
    }
