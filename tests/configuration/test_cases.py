"""The Cases of a configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.configuration import models, settings
from overlayccl_core.configuration.cases import all_cases, cases_of, cases_of_model, workload_named
from overlayccl_core.configuration.deployment import Deployment, Tier, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.program.case import Case
from overlayccl_core.stages import cases
from overlayccl_core.tables.cases import CASES


def _deployment(ranks: int = 8, ranks_per_node: int = 8) -> Deployment:
    return Deployment(
        name="some",
        backend="torchdist",
        library="gloo",
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        tiers=(Tier(name="all", ranks=ranks),),
        memory_budget_bytes=2**30,
    )


def _settings(problem: str, *entries: dict[str, Any]) -> Settings:
    return Settings.from_part(json.dumps({"cases": {problem: entries}, "models": []}))


TP = {"microbatches": 2, "layers": 2, "shape": [1, 4, 8]}


def test_the_shipped_configuration_gives_the_cases_of_this_release() -> None:
    configured = settings.read()
    ids = [c.id for p in configured.problems for c in cases_of(configured, _deployment(4, 4), p)]
    assert ids[:4] == [
        "tp_mlp/n4-m1-l8-256KiB-entry-f32",
        "tp_mlp/n4-m1-l8-256KiB-f32",
        "tp_mlp/n4-m4-l8-64KiB-entry-f32",
        "tp_mlp/n4-m4-l8-64KiB-f32",
    ]
    assert {i.split("/")[0] for i in ids} == set(loader.names("problems")) - {"captured"}
    assert len(set(ids)) == len(ids)


def test_a_model_is_replaced_by_the_sizes_of_its_parameters() -> None:
    entry = {"model": "llama", "width": 8, "hidden": 16, "layers": 1, "vocabulary": 32}
    (case,) = cases_of(_settings("grad_ar", entry), _deployment(), "grad_ar")
    assert case["sizes"][:3] == (32 * 8, 8, 3 * 8 * 8)
    with pytest.raises(ValueError, match=r"entry 1: .*hidden: must"):
        cases_of(_settings("grad_ar", {"model": "llama", "width": 8}), _deployment(), "grad_ar")


def test_an_example_of_the_problem_is_sized_for_the_ranks() -> None:
    entries = [{"example": "train", "dtype": "bfloat16"}, {"example": "train", "ranks": 4}]
    large, small = cases_of(_settings("dist_ce", *entries), _deployment(), "dist_ce")
    assert (large.ranks, large["vocabulary"], large.dtype.value) == (8, 144 * 8, "bfloat16")
    assert (small.ranks, small.groups, small["vocabulary"]) == (4, 2, 144 * 4)
    with pytest.raises(ValueError, match=r"entry 1.*'trian'.*train"):
        cases_of(_settings("dist_ce", {"example": "trian"}), _deployment(), "dist_ce")


def _of_accelerators(deployment: Deployment) -> list[Case]:
    configured = settings.read(usual=deployment.preset)
    assert configured.tree == configured.deployment and configured.models == ()
    return [c for p in configured.problems for c in cases_of(configured, deployment, p)]


@pytest.mark.parametrize("name", ["trn1", "trn1-1n", "trn1-3n", "trn1-5n", "trn2", "nccl-8", "slurm-gpu"])
def test_every_problem_has_a_case_on_each_deployment_of_accelerators(name: str) -> None:
    deployment = load(Path("config/deployments", f"{name}.yaml"))
    found = _of_accelerators(deployment)
    assert {c.problem for c in found} == set(settings.read().problems)
    assert all(c.ranks * c.groups == deployment.ranks for c in found)
    assert {c.uniform for c in found} == {deployment.uniform}


@pytest.mark.parametrize(("nodes", "ranks_per_node"), [(1, 2), (2, 8), (4, 1), (3, 4)])
def test_the_preset_of_accelerators_is_sized_from_the_ranks(nodes: int, ranks_per_node: int) -> None:
    ranks = nodes * ranks_per_node
    sized = _deployment(ranks, ranks_per_node).changed(preset="cluster")
    of_a_layer = {c.ranks for c in _of_accelerators(sized) if c.problem in ("tp_mlp", "layer_block_ar")}
    assert of_a_layer == {ranks_per_node if ranks_per_node > 1 else ranks}


def test_the_cases_of_trn1_stay_what_they_are() -> None:
    """Trees of trn1 are measured: another Case would be another measurement."""
    assert [c.id for c in _of_accelerators(load(Path("config/deployments/trn1.yaml")))] == [
        "tp_mlp/n32x7-m4-l32-16MiB-bf16",
        "tp_mlp/n32x7-m4-l32-16MiB-entry-bf16",
        "layer_block_ar/n32x7-m4-l16-16MiB-bf16",
        "fsdp_prefetch/n224-r32-m4-l16-112MiB-bf16",
        "pp_send_recv/n224-r32-m4-16MiB-gpipe-bf16",
        "grad_ar/n224-r32-t27-632MiB-bf16",
        "uniform_a2a/n224-r32-8.8MiB-bf16",
        "alltoallv/n224-r32-uniform-8.8MiB-bf16",
        "alltoallv/n224-r32-zipf-8.8MiB-bf16",
        "ring_kv/n224-r32-h32-s2240-17.5MiB-bf16",
        "attention/n224-r32-h32-s672-5.2MiB-bf16",
        "dist_ce/n224-r32-t256-v32256-bf16",
        "all_to_next/n224-r32-16MiB-bf16",
    ]


def test_only_entries_that_say_so_take_a_model() -> None:
    assert workload_named("grad_ar", {"model": "llama"}) == "llama"
    assert workload_named("grad_ar", {"sizes": [3]}) is None
    with pytest.raises(ValueError, match=r"entry 1.*model: .*such"):
        cases_of(_settings("tp_mlp", {**TP, "model": "llama"}), _deployment(), "tp_mlp")


@pytest.mark.parametrize(
    ("ranks", "strided", "size"),
    [(8, False, "n8-r4"), (4, False, "n4x2"), (4, True, "n4s2-r2"), (2, True, "n2s4-r1"), (2, False, "n2x4")],
)
def test_groups_know_how_many_of_their_ranks_share_a_node(ranks: int, strided: bool, size: str) -> None:
    entry = {**TP, "ranks": ranks, "strided": strided}
    (case,) = cases_of(_settings("tp_mlp", entry), _deployment(8, 4), "tp_mlp")
    assert case.id == f"tp_mlp/{size}-m2-l2-128B-f32"
    assert case.ranks * case.groups == 8


def test_a_world_size_that_does_not_divide_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"got 3 and 8.*2, 4, 8"):
        cases_of(_settings("tp_mlp", {**TP, "ranks": 3}), _deployment(), "tp_mlp")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"ranks": 1}, r"ranks: .* 2 \(got 1\)"),
        ({"ranks": True}, "ranks: .*integer.*True"),
        ({"ranks": "nodes"}, "ranks: .*integer.*'nodes'.*`node`"),
        ({"strided": "yes"}, "strided: .*bool.*'yes'"),
        ({"dtype": "float8"}, "dtype:.*'float32'.*'float8'"),
    ],
)
def test_a_field_that_every_problem_has_is_checked_too(field: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"tp_mlp, entry 1: {message}"):
        cases_of(_settings("tp_mlp", {**TP, **field}), _deployment(), "tp_mlp")


def test_two_entries_of_one_case_are_refused() -> None:
    with pytest.raises(ValueError, match=r"entry 2: tp_mlp.*already"):
        cases_of(_settings("tp_mlp", TP, TP), _deployment(), "tp_mlp")


def test_an_unknown_problem_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"tp_mpl.*'tp_mlp'"):
        cases_of(_settings("tp_mlp", TP), _deployment(), "tp_mpl")
    with pytest.raises(ValueError, match="none are configured"):
        cases_of(_settings("tp_mlp", TP), _deployment(), "grad_ar")


def test_a_problem_without_a_case_is_left_out_where_that_is_asked_for_and_another_is_left() -> None:
    one = _settings("tp_mlp", TP)
    both, alone = (
        one.model_copy(update={"problems": names}) for names in (("grad_ar", "tp_mlp"), ("grad_ar",))
    )
    with pytest.raises(ValueError, match="grad_ar: none are configured"):
        all_cases(both, _deployment())
    assert [*all_cases(both, _deployment(), leave_out=True)] == ["tp_mlp"]
    with pytest.raises(ValueError, match="grad_ar: none are configured"):
        all_cases(alone, _deployment(), leave_out=True)


def test_rows_fit_the_table_and_give_the_cases_back() -> None:
    configured, said = _settings("tp_mlp", TP, {**TP, "site": "entry"}), list[str]()
    rows = cases.run(configured, _deployment(), "tp_mlp", said.append)
    assert [set(row) for row in rows] == [{c.name for c in CASES.columns}] * 2
    assert [catalog.case_from_row(row) for row in rows] == cases_of(configured, _deployment(), "tp_mlp")
    assert "2 Cases" in said[0]


def test_a_row_whose_id_belongs_to_another_case_is_refused() -> None:
    (row,) = cases.run(_settings("tp_mlp", TP), _deployment(), "tp_mlp", lambda line: None)
    with pytest.raises(ValueError, match="does not belong"):
        catalog.case_from_row({**row, "ranks": 4, "ranks_per_node": 4})


def test_a_model_that_cannot_be_spread_over_the_ranks_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match=r"nano: .*heads .*3 and 8"):
        cases_of_model(models.load("nano"), _deployment(3, 3), 2)
    assert set(cases_of_model(models.load("nano-dp"), _deployment(3, 3), 2)) == {"gradients"}
