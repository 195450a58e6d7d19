"""Real configurations of Llama: tensor, pipeline and data parallel at once, sized without ranks."""

from math import prod
from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model


def cluster(nodes: int) -> Deployment:
    return Deployment(
        name="nodes",
        backend="torchdist",
        library="any",
        ranks=32 * nodes,
        ranks_per_node=32,
        memory_budget_bytes=2**33,
    )


def parameters(model: Model) -> int:
    return sum(prod(shape) for _, shape in model.parameter_sizes())


def test_parameters_are_331_million_and_8_billion_as_every_query_head_has_keys_of_its_own() -> None:
    block = 4 * 4096**2 + 3 * 4096 * 14336 + 2 * 4096
    assert parameters(models.load("llama-small")) == 331_368_448
    assert parameters(models.load("llama-7b")) == 32 * block + 2 * 32256 * 4096 + 4096 == 8_049_135_616


def test_a_replica_of_two_stages_is_a_node_and_its_sites_lie_where_they_should() -> None:
    cases = cases_of_model(models.load("llama-7b"), cluster(7), 4)
    ids = {site: case.id for site, case in cases.items() if not site.startswith("loss_")}
    assert ids == {
        "entry": "tp_mlp/n16x14-m4-l33-16MiB-entry-bf16",  # 32 of 16 blocks, one of the head
        "gradients": "grad_ar/n7s32-r1-t98-1GiB-bf16",
        "stages": "pp_send_recv/n32x7-m4-16MiB-1f1b-bf16",
        "exit": "tp_mlp/n16x14-m4-l32-16MiB-bf16",
    }
    assert {case.id for site, case in cases.items() if site.startswith("loss_")} == {
        "dist_ce/n16x14-t2048-v32256-bf16"
    }


@pytest.mark.parametrize("nodes", [1, 3, 5, 7])
@pytest.mark.parametrize("name", ["llama-7b", "llama-small"])
def test_they_fit_any_number_of_nodes_in_every_split(name: str, nodes: int) -> None:
    model = models.load(name)
    for microbatches in model.microbatches:
        cases = cases_of_model(model, cluster(nodes), microbatches)
        assert ("gradients" in cases) is (nodes > 1)  # one replica has nothing to average
        assert {case.problem for case in cases.values()} >= {"tp_mlp", "dist_ce"}


def test_a_rank_holds_its_share_and_replicas_average_what_the_larger_stage_has() -> None:
    model: Any = models.load("llama-7b")
    blocks = 16 * ((4 * 4096**2 + 3 * 4096 * 14336) // 16 + 2 * 4096)
    first, last = map(sum, model.held())
    assert (first, last) == (blocks + 32256 * 4096, blocks + 4096 + 32256 * 4096 // 16)
    work = model.work(4, 224)
    assert work.rank_parameters == first
    assert work.parameter_bytes == 2 * first
    assert work.optimizer_bytes == 12 * first  # two moments and a copy, in float32
    assert work.activation_bytes == 2 * 2048 * 4096
    assert sum(model.averaged()) >= max(first, last)


def test_flops_are_six_a_parameter_and_token_and_those_of_attention() -> None:
    model = models.load("llama-7b")
    tokens, matrices = 4 * 2048, 32 * (4 * 4096**2 + 3 * 4096 * 14336) + 32256 * 4096
    one_replica = 6 * tokens * matrices + 12 * tokens * 32 * 2048 * 4096
    for ranks in (32, 224):
        work = model.work(4, ranks)
        assert work is not None and work.flops == one_replica * ranks // 32


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("llama-7b", {"layers": 31}, "layers .*2 and 31.*32"),
        ("llama-7b", {"tensor": 64}, "heads .*64 and 32.*fewer"),
        ("llama-small", {"hidden": 5377}, "hidden .*32 and 5377"),
        ("llama-7b", {"stages": 3}, "stages: "),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name: str, change: dict[str, Any], message: str) -> None:
    model = models.load(name)
    fields = {**model.model_dump(mode="json", exclude={"name"}), **change}
    with pytest.raises(ValueError, match=message) as error:
        type(model).from_data(fields, name=name)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"stages .*48 and 32"):
        models.load("llama-7b").check(48)
