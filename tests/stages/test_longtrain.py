"""The target `longrun` on real ranks: many steps of the deployed file beside others, and a kill amid them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.longrun import LongrunSection
from overlayccl_core.configuration.settings import read
from overlayccl_core.evidence.choices import rows_of
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.stages import longtrain, losses
from overlayccl_core.tables.longrun import CURVES, LONG_STAMPS, LONG_STEPS, LOSSES
from overlayccl_core.tables.table import write
from overlayccl_core.training.launches import _TrainingBatch
from tests.stages.choices import decided, trained

pytestmark = pytest.mark.ranks
DEPLOYMENT = load("config/deployments/local-2.yaml")
M = 2
MODEL = models.load("nano").changed(batch=M, microbatches=(M,), loss_microbatches=M)
ARMS = {"developer": "developer", "hand_bundled": "bf16_on_the_wire", "finalist_1": "all_to_all_sum"}
STEPS = 80
COURSES = [("developer", 0), ("hand_bundled", 0), ("deployed", 0), ("developer", 1)]
KILLED_AT = 2  # launches that ended by then


@dataclass(frozen=True)
class Finished:
    """A run that was killed and went on. launches: that began, of both."""

    launches: int
    said: list[str]
    steps: pl.DataFrame
    losses: pl.DataFrame
    curves: pl.DataFrame


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("longrun")
    cases = cases_of_model(MODEL, DEPLOYMENT, M).values()  # finalist_1 was chosen at both sites
    of = decided(DEPLOYMENT, cases, ARMS, "finalist_1", folder, trained_in=f"nano m{M}")
    said, began = list[str](), list[int]()
    before = trained(of.finalists, ARMS, MODEL, folder)
    settings = read().changed(longrun=LongrunSection(steps=STEPS, seeds=2))
    launch = _TrainingBatch._launch

    def run() -> dict[str, Any]:
        partial = folder / "longrun/.partial"
        return longtrain.run(
            DEPLOYMENT, settings, {"tp_mlp": of}, MODEL, before, partial, progress=said.append
        )

    def counted(self: _TrainingBatch, number: int) -> None:
        if len(began) == KILLED_AT and not kills:
            kills.append(number)
            raise KeyboardInterrupt
        began.append(number)
        launch(self, number)

    kills: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_TrainingBatch, "_launch", counted)
        with pytest.raises(KeyboardInterrupt):
            run()
        made = run()
    steps, stamps = (write(t, made[t.name], folder / f"{t.name}.parquet") for t in (LONG_STEPS, LONG_STAMPS))
    told = losses.run(steps, stamps, rows_of(of))
    joined, curves = (write(t, told[t.name], folder / f"{t.name}.parquet") for t in (LOSSES, CURVES))
    return Finished(len(began), said, steps, joined, curves)


def test_what_had_ended_before_a_kill_is_not_trained_again(finished: Finished) -> None:
    assert finished.launches == len(COURSES)
    kept = [line for line in finished.said if "of a run that was cut off" in line]
    assert len(kept) == KILLED_AT


def test_every_arm_runs_for_all_steps_alone_and_untimed(finished: Finished) -> None:
    steps = finished.steps
    assert steps.select("arm", "seed").rows() == COURSES
    assert set(steps["purpose"]) == {Purpose.LOSS} and set(steps["microbatches"]) == {M}
    assert steps["launch"].to_list() == list(range(len(COURSES)))  # no two of them compare in time
    assert set(steps["losses"].list.len()) == {STEPS}


def test_losses_fall_and_are_one_row_for_each_arm_and_step(finished: Finished) -> None:
    table = finished.losses
    assert table.height == len(COURSES) * STEPS
    for (_arm, _seed), course in table.group_by("arm", "seed"):
        loss = course.sort("step")["loss"].to_numpy()
        assert loss[0] > 5.0 and loss[-20:].mean() < 0.7 * loss[0]  # ln 256 is 5.5


def test_arms_of_one_seed_train_alike_and_other_seeds_do_not(finished: Finished) -> None:
    table = finished.losses
    mine = table.filter(pl.col("seed") == 0)
    assert mine.filter(pl.col("step") == 0)["developer_difference"].abs().max() < 1e-3  # bfloat16's
    seeds = [table.filter(arm="developer", seed=seed).sort("step")["loss"].to_numpy() for seed in (0, 1)]
    apart = np.abs(seeds[0] - seeds[1]).mean()
    off = {arm: mine.filter(arm=arm)["developer_difference"].abs() for arm in ("deployed", "hand_bundled")}
    assert off["deployed"].max() == 0  # the sum of two ranks has one order
    assert 0 < off["hand_bundled"].mean() < apart / 5  # what bfloat16 rounds away


def test_the_gate_says_so(finished: Finished) -> None:
    curves = finished.curves
    assert curves["arm"].to_list() == [arm for arm, seed in COURSES if seed == 0]
    assert curves["numerics"].to_list() == ["reordered", "lossy", "reordered"]
    exact = curves.filter(numerics="reordered")
    assert set(exact["outcome"]) == {"pass"}, exact["message"].to_list()
    assert set(curves["steps"]) == {STEPS}
    assert (curves["last_loss"] < curves["first_loss"]).all()
    assert all("band" in one for one in curves["evidence"])
