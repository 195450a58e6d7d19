"""fsdp_prefetch: Cases, placements, segments, and what the backward waits for."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.case import Case

ENTRY = {"microbatches": 2, "layers": 2, "shape": [64, 32]}


def at(ranks: int = 4, **change: object) -> Case:
    return catalog.case("fsdp_prefetch", {**ENTRY, **change}, ranks=ranks, ranks_per_node=ranks)


@pytest.mark.parametrize(("shards", "shape"), [("rows", (16, 32)), ("columns", (64, 8))])
def test_a_rank_holds_rows_or_columns(shards: str, shape: tuple[int, int]) -> None:
    problem = catalog.build(at(shards=shards))
    assert problem.inputs["shard", 1].shape == shape == problem.parameters["shard_shape"]
    assert problem.outputs["full", 1, 1].shape == (64, 32)


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
