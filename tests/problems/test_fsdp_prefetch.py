"""fsdp_prefetch: Cases, placements, segments, and what the backward waits for."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import fsdp_prefetch
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Placement

ENTRY = {"microbatches": 2, "layers": 2, "shape": [64, 32]}


def at(ranks: int = 4, **change: object) -> Case:
    return catalog.case("fsdp_prefetch", {**ENTRY, **change}, ranks=ranks, ranks_per_node=ranks)


def test_a_case_is_named_by_microbatches_layers_and_the_bytes_of_a_parameter() -> None:
    case = at()
    assert case.id == "fsdp_prefetch/n4-m2-l2-8KiB-f32"
    assert at(shards="columns", site="regather").id == "fsdp_prefetch/n4-m2-l2-8KiB-columns-regather-f32"
    assert fsdp_prefetch.payload_bytes(case) == 4 * 8 * 1024
    assert fsdp_prefetch.bus_factor(case) == pytest.approx(0.75)


@pytest.mark.parametrize(("shards", "shape"), [("rows", (16, 32)), ("columns", (64, 8))])
def test_a_rank_holds_rows_or_columns(shards: str, shape: tuple[int, int]) -> None:
    problem = catalog.build(at(shards=shards))
    assert problem.inputs["shard", 1].shape == shape == problem.parameters["shard_shape"]
    assert problem.outputs["full", 1, 1].shape == (64, 32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [66, 32]}, "rows .*66 over 4.* to 68"),
        ({"shape": [64, 30], "shards": "columns"}, "columns .*30 over 4.* 32"),
        ({"shape": [64]}, "shape.1: .*there: .*rows"),
        ({"layers": 0}, "layers: .* 1 .got 0"),
        ({"shards": "blocks"}, "shards: .*'columns' .got"),
        ({"site": "entry"}, "site: .*'regather' .got"),
    ],
)
def test_a_wrong_field_is_named_with_the_mend(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"fsdp_prefetch: .*{message}"):
        at(**change)


def test_a_block_needs_its_parameter_and_comes_after_the_one_before() -> None:
    problem = catalog.build(at())
    segments = {s.name: s for s in problem.segments}
    assert segments["parameters",].gives == (("shard", 0), ("shard", 1))
    assert segments["block", 1, 1].needs == (("full", 1, 1),)
    assert segments["block", 1, 1].after == (("block", 1, 0),)
    assert segments["block", 1, 0].after == ()


def test_the_second_gather_walks_the_layers_backwards_and_has_no_gradients_of_its_own() -> None:
    problem = catalog.build(at(site="regather"))
    segments = {s.name: s for s in problem.segments}
    assert problem.parameters["layer_order"] == (1, 0)
    assert segments["block", 0, 0].after == (("block", 0, 1),)
    assert segments["block", 0, 1].after == ()
    assert catalog.backward(problem.case) is None
    assert catalog.backward(at()) is not None


def test_the_backward_gives_the_first_microbatchs_gradients_first_each_from_the_last_layer_on() -> None:
    backward = catalog.backward(at())
    assert backward is not None
    assert [s.name for s in backward.segments] == [
        *(("d_block", m, layer) for m in (0, 1) for layer in (1, 0)),
        ("d_parameters",),
    ]
    given = [port for s in backward.segments for port in s.gives]
    assert given == [("d_full", m, layer) for m in (0, 1) for layer in (1, 0)]


def test_shards_differ_and_every_rank_has_its_own_part_of_a_whole_gradient() -> None:
    problem = catalog.build(at())
    shard, full = problem.inputs["shard", 0], problem.outputs["full", 0, 0]
    assert (shard.placement, shard.cotangent) == (Placement.VARYING, Placement.VARYING)
    assert (full.placement, full.cotangent) == (Placement.REPLICATE, Placement.PARTIAL)


@pytest.mark.parametrize("shards", ["rows", "columns"])
def test_a_proxy_is_as_large_up_to_what_divides_over_fewer_ranks(shards: str) -> None:
    entry = {"microbatches": 4, "layers": 16, "shape": [30, 42], "shards": shards, "site": "regather"}
    large = catalog.case("fsdp_prefetch", entry, ranks=6, ranks_per_node=6)
    small = catalog.proxy(large)
    assert small is not None and small.ranks == 4
    assert small["shape"] == ((32, 42) if shards == "rows" else (30, 44))
    assert (small["microbatches"], small["layers"], small["shards"]) == (2, 2, shards)
    assert small["site"] == "regather"
    assert catalog.proxy(small) is None
