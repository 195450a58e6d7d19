"""A mixture of experts at the size of a cluster, sized without ranks and without torch."""

from math import prod
from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment

CLUSTER = Deployment(
    name="nodes", backend="torchdist", library="any", ranks=224, ranks_per_node=32, memory_budget_bytes=2**33
)
MODEL: Any = models.load("olmoe-10b")
ATTENTION, EXPERT, HEAD = 4 * 2048**2, 3 * 2048 * 1024, 32256 * 2048


def test_it_has_about_ten_billion_parameters_nearly_all_in_experts() -> None:
    found = sum(prod(shape) for _, shape in MODEL.parameter_sizes())
    layer = ATTENTION + 2 * 2048 + 224 * 2048 + 224 * EXPERT
    assert found == 8 * layer + 2048 + 2 * HEAD == 11_544_332_288


def test_an_expert_takes_ten_tokens_of_each_rank_and_each_layer_exchanges_twice_each_way() -> None:
    assert MODEL.capacity(1) == 10
    cases = cases_of_model(MODEL, CLUSTER, 1)
    exchanges = {site: case for site, case in cases.items() if case.problem == "alltoallv"}
    assert len(exchanges) == 8 * 2 * 2
    [case] = set(exchanges.values())
    assert set(case["counts"]) == {10} and case["width"] == 2048  # 20,480 elements for each pair
    assert cases["loss_0"].id == "dist_ce/n224-r32-t256-v32256-bf16"
    replicated = HEAD + 2048 + 8 * (ATTENTION + 2 * 2048 + 224 * 2048)
    assert sum(cases["gradients"]["sizes"]) == replicated


def test_a_rank_holds_an_expert_of_each_layer_and_its_rows_of_the_head() -> None:
    replicated = HEAD + 2048 + 8 * (ATTENTION + 2 * 2048 + 224 * 2048)
    work = MODEL.work(1, 224)
    assert work.rank_parameters == replicated + 8 * EXPERT + 144 * 2048
    tokens, rows = 224 * 256, 224 * 224 * 10
    dense = 6 * tokens * (8 * (ATTENTION + 224 * 2048) + HEAD) + 12 * tokens * 8 * 256 * 2048
    assert work.flops == dense + 6 * rows * 8 * EXPERT


def test_ranks_that_do_not_divide_the_experts_are_refused() -> None:
    MODEL.check(32)  # seven experts a rank
    with pytest.raises(ValueError, match=r"experts .*96 and 224"):
        MODEL.check(96)
