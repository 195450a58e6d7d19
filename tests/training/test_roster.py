"""Which arms of a model a launch runs."""

from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.measuring.frameworks import WAYS
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.library import read_library
from overlayccl_core.training.roster import Roster

ARMS = ("developer", "best_known_way", "finalist_1", "deployed")


@pytest.mark.parametrize(("name", "has_them"), [("local", True), ("standin", False)])
@pytest.mark.parametrize("model", ["nano-dp", "nano-fsdp"])
def test_the_frameworks_own_arms_are_where_the_backend_can_run_them(
    model: str, name: str, has_them: bool
) -> None:
    deployment, asked = load(f"config/deployments/{name}.yaml"), models.load(model)
    arms = Roster(asked, deployment, backend_of(deployment), [])
    arms.add_framework(2)
    assert [arm.name for arm in arms.arms] == (list(asked.framework_arms) if has_them else [])
    assert asked.framework_arms


@pytest.mark.parametrize(("model", "counts"), [("nano-moe", False), ("nano-moe-v", True)])
@pytest.mark.parametrize(("name", "nodes"), [("local", 1), ("two-tier", 2)])
def test_an_arm_that_equals_another_here_is_left_out(model: str, counts: bool, name: str, nodes: int) -> None:
    deployment = load(f"config/deployments/{name}.yaml")
    arms = Roster(models.load(model), deployment, backend_of(deployment), [])
    arms.add_framework(1)
    found = {arm.name for arm in arms.arms}
    assert ("experts_two_steps" in found) is (nodes > 1) and ("experts_exact" in found) is counts
    assert "experts" in found and "experts_gathered" in found


@pytest.mark.parametrize("best", ["gather_logits", "max_then_stacked"])
def test_an_exchange_is_tried_with_the_loss_that_the_bench_found_best_at_the_models_case(best: str) -> None:
    deployment, model = load("config/deployments/local.yaml"), models.load("nano-moe-v")
    [loss] = {case.id for case in cases_of_model(model, deployment, 1).values() if case.problem == "dist_ce"}
    rows = [
        {"case": case, "direction": "forward", "arm": "best_known_way", "candidate": way}
        for case, way in ((loss, best), ("dist_ce/of-no-model", "gather_logits"))
    ]
    arms = Roster(model, deployment, backend_of(deployment), rows)
    arms.add_framework(1)
    found = {arm.name for arm in arms.arms}
    exchanges = {"experts_ddp", "experts_functional", "experts_exact", "experts_exact_gathered"}
    exchanges |= {"experts_gathered", "experts_gathered_joined"}
    mine = {f"{one}_logits" for one in exchanges} if best == "gather_logits" else exchanges
    assert found == mine | {"experts", "experts_three", "experts_logits"}
    arms.add_framework(1, ["experts_exact"])  # that was trained
    assert arms.arms[-1].name == "experts_exact"


@pytest.mark.parametrize("model", ["nano-context", "nano-attention", "nano-ring"])
@pytest.mark.parametrize(
    ("name", "heads", "divide"), [("local", 8, True), ("local", 2, False), ("local-2", 2, True)]
)
def test_heads_go_to_ranks_only_where_the_ranks_divide_them(
    model: str, name: str, heads: int, divide: bool
) -> None:
    deployment = load(f"config/deployments/{name}.yaml")
    arms = Roster(models.load(model).changed(heads=heads), deployment, backend_of(deployment), [])
    arms.add_framework(1)
    found = {arm.name for arm in arms.arms}
    assert ("context_parallel_ulysses" in found) is divide
    assert {"context_parallel", "context_parallel_joined", "context_parallel_ddp"} <= found


def test_where_nothing_is_exchanged_every_arm_has_the_developers_program() -> None:
    deployment, model = load("config/deployments/local-2.yaml"), models.load("nano-moe")
    cases = cases_of_model(model, deployment, 1)
    rows: dict[str, dict[str, Any]] = {}
    for site in models.sites_of(model, 1, deployment.ranks):
        program = catalog.developer_program(catalog.in_direction(cases[site.name], site.direction))
        row = {
            "case": cases[site.name].id,
            "direction": site.direction.value,
            "candidate": "one",
            "program": program.digest,
            "program_json": dumps(program),
        }
        rows |= {f"{row['case']} {site.direction} {arm}": {**row, "arm": arm} for arm in ARMS}
    rows = {key: row for key, row in rows.items() if not _is_silent(row) or row["arm"] == "developer"}
    assert len(rows) == 6 * len(ARMS) + 1
    arms = Roster(model, deployment, backend_of(deployment), rows.values())
    arms.add(1, ARMS, lambda _: ())
    assert [one["arm"] for one in arms.begun if one["site"] == "loss_0_0_backward"] == list(ARMS)
    arms.add_deployed(1, {case.problem: "" for case in cases.values()})
    assert arms.arms[-1].name == "deployed" and len(arms.arms[-1].sites) == len(cases)


def _is_silent(row: dict[str, Any]) -> bool:
    return row["case"].startswith("dist_ce") and row["direction"] == "backward"


def test_the_known_ways_on_which_an_arm_hangs_are_there() -> None:
    named = {name for way in WAYS.values() for name in (way.only_if, way.not_if)} - {""}
    known = {name for name, _ in read_library(catalog.library_source("dist_ce")).strategies}
    assert named and named <= known
