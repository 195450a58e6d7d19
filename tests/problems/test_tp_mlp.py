"""tp_mlp: Cases, placements, segments."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import tp_mlp
from overlayccl_core.program.kinds import Placement

ENTRY = {"microbatches": 8, "layers": 8, "shape": [1, 64, 128]}


def test_a_case_is_named_by_microbatches_layers_and_the_bytes_of_a_sum() -> None:
    case = catalog.case("tp_mlp", ENTRY, ranks=4, ranks_per_node=4)
    assert case.id == "tp_mlp/n4-m8-l8-32KiB-f32"
    assert tp_mlp.payload_bytes(case) == 64 * 32 * 1024
    assert tp_mlp.bus_factor(case) == pytest.approx(1.5)


def test_the_id_tells_the_site_groups_nodes_and_dtype() -> None:
    case = catalog.case(
        "tp_mlp",
        {**ENTRY, "site": "entry"},
        ranks=32,
        ranks_per_node=16,
        groups=7,
        strided=True,
        dtype="bfloat16",
    )
    assert case.id == "tp_mlp/n32s7-r16-m8-l8-16KiB-entry-bf16"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers: .* 1 .got 0"),
        ({"layers": True}, "layers: .*integer .got T"),
        ({"shape": []}, "shape: .* 1 item"),
        ({"site": "middle"}, "site: .*or 'entry' .got"),
        ({"layer": 8}, "layer: .*mean 'layers'"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"tp_mlp: {message}"):
        catalog.case("tp_mlp", {**ENTRY, **change}, ranks=4, ranks_per_node=4)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"tp_mlp: shape: .* there"):
        catalog.case("tp_mlp", {"microbatches": 1, "layers": 1}, ranks=4, ranks_per_node=4)


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


def test_partial_sums_become_replicated_totals_with_replicated_cotangents() -> None:
    problem = tp_mlp.problem(catalog.case("tp_mlp", ENTRY, ranks=4, ranks_per_node=4))
    partial, total = problem.inputs["partial", 0, 0], problem.outputs["total", 0, 0]
    assert (partial.placement, partial.cotangent) == (Placement.PARTIAL, Placement.REPLICATE)
    assert (total.placement, total.cotangent) == (Placement.REPLICATE, Placement.REPLICATE)
