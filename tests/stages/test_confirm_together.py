"""The deployed files of two Problems in one step on real ranks: of an arm that changes one of them alone."""

from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.stages import confirm
from tests.stages.choices import decided, trained
from tests.stages.test_confirm import QUICK

DEPLOYMENT = load("config/deployments/local.yaml")
MODEL = models.load("nano-pp").changed(layers=2, batch=2, microbatches=(2,), loss_microbatches=2)
ARMS = {
    "pp_send_recv": {"developer": "send_receive", "finalist_1": "merged_all_reduce"},
    "grad_ar": {"developer": "one_by_one", "finalist_1": "flat"},
}


@pytest.mark.ranks
@pytest.mark.usefixtures("unrepeated")
def test_the_files_train_as_the_arm_that_was_chosen_and_it_runs_beside_them(tmp_path: Path) -> None:
    cases = {case.problem: case for case in cases_of_model(MODEL, DEPLOYMENT, 2).values()}
    problems = {
        name: decided(DEPLOYMENT, [case], ARMS[name], "only_grad_ar", tmp_path, trained_in="nano-pp m2")
        for name, case in cases.items()
    }
    settings = QUICK.changed(confirm=QUICK.confirm.changed(launches=1))
    launches = confirm._Launches(
        DEPLOYMENT, settings, problems, tmp_path / ".partial", lambda _line: None, ""
    )
    finalists = pl.concat([of.finalists for of in problems.values()])
    before = trained(finalists, ("developer", "finalist_1", "only_grad_ar"), MODEL, tmp_path)
    steps, stamps = launches.steps(MODEL, before)
    # the finalist is made of ways that the libraries have: a rival
    assert {row["arm"] for row in steps} == {"developer", "finalist_1", "only_grad_ar", "deployed"}
    assert all(row["gradient_rel_error"] < 1e-5 for row in steps if row["purpose"] == "timed")
    calls = {
        arm: tuple(row["calls"] for site in ("stages", "gradients") for row in stamps
                   if (row["arm"], row["site"]) == (arm, site))
        for arm in ("developer", "finalist_1", "only_grad_ar", "deployed")
    }  # fmt: skip
    gradients = len(cases["grad_ar"]["sizes"])
    assert calls == {
        "developer": (4, gradients), "finalist_1": (2, 1), "only_grad_ar": (4, 1), "deployed": (4, 1),
    }  # fmt: skip
