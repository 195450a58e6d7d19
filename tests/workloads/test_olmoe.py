"""A mixture of experts at the size of a cluster, sized without ranks and without torch; and on few ranks."""

from math import prod
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.gates import equivalence
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Direction
from overlayccl_core.workloads.olmoe import Routing, experts_of
from tests.on_ranks import here

CLUSTER = Deployment(
    name="nodes", backend="torchdist", library="any", ranks=224, ranks_per_node=32, memory_budget_bytes=2**33
)
MODEL: Any = models.load("olmoe-10b")
SMALL: Any = models.load("nano-moe")
UNEVEN: Any = models.load("nano-moe-v")
ATTENTION, EXPERT, HEAD = 4 * 2048**2, 3 * 2048 * 1024, 32256 * 2048


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return cases_of_model(MODEL, CLUSTER, 1)


def test_it_has_about_ten_billion_parameters_nearly_all_in_experts() -> None:
    found = sum(prod(shape) for _, shape in MODEL.parameter_sizes())
    layer = ATTENTION + 2 * 2048 + 224 * 2048 + 224 * EXPERT
    assert found == 8 * layer + 2048 + 2 * HEAD == 11_544_332_288


def test_an_expert_takes_ten_tokens_of_each_rank_and_each_layer_exchanges_twice_each_way(
    cases: dict[str, Case],
) -> None:
    assert MODEL.capacity == MODEL.rows(1) == 10
    exchanges = {site: case for site, case in cases.items() if case.problem == "uniform_a2a"}
    assert len(exchanges) == 8 * 2 * 2
    [case] = set(exchanges.values())
    assert case["chunk"] == 10 and case["width"] == 2048  # 20,480 elements for each pair
    replicated = HEAD + 2048 + 8 * (ATTENTION + 2 * 2048 + 224 * 2048)
    assert sum(cases["gradients"]["sizes"]) == replicated


def test_hidden_states_of_all_ranks_are_gathered_and_their_losses_taken_a_text_at_a_time(
    cases: dict[str, Case],
) -> None:
    assert cases["hidden_0"]["shape"] == (224 * 256, 2048)
    losses = {site: case.id for site, case in cases.items() if case.problem == "dist_ce"}
    assert len(losses) == 2 * 224 and set(losses.values()) == {"dist_ce/n224-r32-t256-v32256-f32"}
    with pytest.raises(ValueError, match=r"loss_tokens .*255 and 57344"):
        MODEL.changed(loss_tokens=255).check(224)


def test_its_linear_cases_are_proven_at_their_size(cases: dict[str, Case]) -> None:
    linear = {case for case in cases.values() if case.problem != "dist_ce"}
    assert {case.problem for case in linear} == {"uniform_a2a", "fsdp_prefetch", "grad_ar"}
    for case in linear:
        for problem in catalog.directions(case):
            verdict = equivalence.prove(
                catalog.developer_program(problem), catalog.reference_program(problem)
            )
            assert verdict.outcome is Outcome.PASS, f"{case.id} {problem.direction}"


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
    UNEVEN.check(4)  # tokens choose: experts need not divide
    with pytest.raises(ValueError, match=r"an expert .*6 experts and 8 ranks"):
        UNEVEN.check(8)


def test_experts_lie_as_evenly_as_can_be_one_behind_the_other() -> None:
    assert [list(some) for some in experts_of(6, 4)] == [[0, 1], [2, 3], [4], [5]]
    assert [len(some) for some in experts_of(224, 32)] == [7] * 32


def test_of_tokens_choice_the_counts_are_the_room_of_each_ranks_experts() -> None:
    assert UNEVEN.capacity == 20  # 48 * 2 / 6 * 1.25
    cases = cases_of_model(UNEVEN, here(4), 2)
    of_an_expert = 2 * 20  # two texts
    there = np.array(cases["dispatch_2_1"]["counts"]).reshape(4, 4)
    assert there.tolist() == [[2 * of_an_expert, 2 * of_an_expert, of_an_expert, of_an_expert]] * 4
    back = np.array(cases["combine_2_1"]["counts"]).reshape(4, 4)
    assert back.tolist() == there.T.tolist()
    assert cases["dispatch_2_1"].id != cases["combine_2_1"].id
    assert cases["dispatch_2_1_backward"] == cases["dispatch_2_1"]


def test_every_forward_site_has_its_backward_beside_it() -> None:
    for model in (SMALL, UNEVEN):
        sites = {site.name: site for site in models.sites_of(model, 2, 4)}
        forward = {name for name, site in sites.items() if site.direction is Direction.FORWARD} - {
            "gradients"
        }
        assert {name + "_backward" for name in forward} == set(sites) - forward - {"gradients"}
        assert len(forward) == 2 * (2 * model.layers + 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"routing": Routing.TOKENS}, "capacity_factor .*say it"),
        ({"balance": 0.01}, "balance .*leave it out"),
        ({"top_k": 9}, "top_k .*9 and 8"),
        ({"heads": 3}, "even width"),
        ({"vocabulary": 255}, "256 values of a byte"),
        ({"tokenizer": "t.json"}, "tokenizer is of a corpus"),
    ],
)
def test_fields_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SMALL.changed(**changes).check(4)


def test_a_dtype_that_is_not_trained_in_is_said() -> None:
    assert models.why_not_trained(SMALL) is None
    assert "dtype: float32" in str(models.why_not_trained(SMALL.changed(dtype=DType.BFLOAT16)))
    assert "bfloat16" in str(models.why_not_trained(MODEL))
