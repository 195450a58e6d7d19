"""layer_block_ar: Cases, placements, segments."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import layer_block_ar
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Placement

ENTRY = {"microbatches": 1, "layers": 2, "shape": [1, 64, 128]}


def at(**change: object) -> Case:
    return catalog.case("layer_block_ar", {**ENTRY, **change}, ranks=4, ranks_per_node=4)


def test_a_case_is_named_by_microbatches_blocks_and_the_bytes_of_a_sum() -> None:
    assert at().id == "layer_block_ar/n4-m1-l2-32KiB-f32"
    assert at(site="entry").id == "layer_block_ar/n4-m1-l2-32KiB-entry-f32"
    assert layer_block_ar.payload_bytes(at()) == 2 * 32 * 1024
    assert layer_block_ar.bus_factor(at()) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers: .* 1 .got 0"),
        ({"shape": []}, "shape: .* 1 item"),
        ({"site": "middle"}, "site: .*or 'entry' .got"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"layer_block_ar: {message}"):
        at(**change)


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


def test_the_entry_site_walks_the_blocks_backwards_and_has_no_backward() -> None:
    problem = catalog.build(at(site="entry"))
    assert [s.name for s in problem.segments] == [
        *(("block", 0, 1), ("block", 0, 0), ("weights", 0, 1), ("weights", 0, 0)),
        ("front", 0),
    ]
    assert problem.segments[1].needs == (("total", 0, 1),)
    assert catalog.backward(problem.case) is None
    assert catalog.backward(at()) is not None


def test_partial_sums_become_replicated_totals_with_replicated_cotangents() -> None:
    problem = catalog.build(at())
    partial, total = problem.inputs["partial", 0, 0, 1], problem.outputs["total", 0, 0]
    assert (partial.placement, partial.cotangent) == (Placement.PARTIAL, Placement.REPLICATE)
    assert (total.placement, total.cotangent) == (Placement.REPLICATE, Placement.REPLICATE)


def test_a_proxy_has_two_microbatches_of_two_blocks_of_the_same_shape() -> None:
    entry = {"microbatches": 8, "layers": 16, "shape": [1, 8, 4], "site": "entry"}
    small = catalog.proxy(catalog.case("layer_block_ar", entry, ranks=32, ranks_per_node=8))
    assert small is not None and small.id == "layer_block_ar/n8-r4-m2-l2-128B-entry-f32"
    assert catalog.proxy(small) is None
