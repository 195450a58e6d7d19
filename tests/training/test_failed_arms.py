"""A finalist that fails in a training launch is left out of the others and cannot be chosen. Needs no ranks."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.evidence.trained import arms_by_model, failed_arms
from overlayccl_core.gates.training import passes
from overlayccl_core.launching.launch import Failure, Launch, LaunchError
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from overlayccl_core.training import launches
from overlayccl_core.training.launches import Training, train
from overlayccl_core.training.plan import Arm, ArmSite, RankRecord, StepSettings, TrainingPlan, write_records
from tests.timing.batches import silent
from tests.training.test_rows import SEEN

HERE = load("config/deployments/local-2.yaml")
NO_STAMPS = pl.DataFrame(schema=STAMPS.schema)
ARMS = tuple(
    Arm(
        name=name,
        microbatches=2,
        sites=(
            ArmSite(
                site="exit",
                direction=Direction.FORWARD,
                module=f"modules/{name}.py",
                case="tp_mlp/n2",
                deployed=False,
                early=False,
                members=((0, 1),),
                shapes=(),
            ),
        ),
    )
    for name in ("developer", "finalist_1", "finalist_2")
)
TRAINING = Training(
    model=models.load("nano"),
    arms=ARMS,
    sources={},
    deployment=HERE,
    fingerprint="here",
    settings=StepSettings(seconds=1, minimum_steps=2, maximum_steps=4, loss_steps=0, loss_seeds=()),
    launches=2,
)


class Ranks:
    """Stands for a backend: all arms find the same; in launch `number`, rank 1 dies at `culprit`, so many times."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        culprit: str,
        number: int,
        *,
        times: int = 99,
        foreign_cpu_share: float = 0.0,
    ) -> None:
        self.times = times
        self.foreign_cpu_share = foreign_cpu_share
        self.culprit = culprit
        self.number = number
        self.launched: list[tuple[int, tuple[str, ...]]] = []
        backend = SimpleNamespace(train=self.train, oversubscribed=lambda _where: True)
        monkeypatch.setattr(launches, "backend_of", lambda _where: backend)

    def train(self, where: Deployment, started: Launch, watch: Any) -> float:
        assert where == HERE and started.worker == "overlayccl_core.training.worker"
        plan = TrainingPlan.read(started.folder)
        self.launched.append((plan.launch, tuple(started.names)))
        assert [p.name for p in started.folder.iterdir() if p.suffix == ".error"] == []
        if plan.launch == self.number and self.culprit in started.names and self.times:
            self.times -= 1
            (started.folder / "rank-1.error").write_text("Traceback of rank 1")
            raise LaunchError("rank 1 of 2 died", kind=Failure.CRASHED, ranks=(1,), job=self.culprit)
        for rank in range(plan.ranks):
            write_records(started.folder, rank, [self.record(index, plan) for index in range(len(plan.arms))])
        return self.foreign_cpu_share

    def record(self, arm: int, plan: TrainingPlan) -> RankRecord:
        return RankRecord(
            arm=arm, purpose=Purpose.TIMED, seed=plan.launch, cold=1, starts_ns=(0, 0, 0), ends_ns=(9, 9, 9),
            losses=(1.0, 1.0, 1.0), inspection=None if plan.launch else SEEN,
        )  # fmt: skip


@pytest.mark.parametrize("number", [0, 1])
def test_a_finalist_that_crashes_is_left_out_and_cannot_be_chosen(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2", number)
    rows = train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert [(n, len(names)) for n, names in ranks.launched] == (
        [(0, 3), (0, 1), (0, 2), (1, 2)] if number == 0 else [(0, 3), (1, 3), (1, 1), (1, 2)]
    )
    [row] = [row for row in rows if row["status"] == "crashed"]
    trace = tmp_path / "logs" / "train-nano.failure-1" / "rank-1.error"
    assert row["message"] == f"rank 1 of 2 died; see {trace}" and "of rank 1" in trace.read_text()
    assert (row["arm"], row["launch"], row["steps_us"]) == ("finalist_1", number, [])
    columns = [{k: v for k, v in row.items() if k != "stamps"} for row in rows]
    steps = write(STEPS, columns, tmp_path / "steps.parquet")
    assert set(arms_by_model(steps, NO_STAMPS)["nano m2"]) == {"developer", "finalist_2"}
    [verdict] = failed_arms(steps, NO_STAMPS).values()
    assert not passes([verdict]) and verdict.reason == "crashed" and str(trace) in verdict.message
    assert steps.filter(pl.col("status") == "trained").height == 4 + number


def test_a_run_that_goes_on_does_not_start_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2", 0)
    first = train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert train(TRAINING, tmp_path / ".partial", "train-nano", "", silent) == first
    assert len(ranks.launched) == 4


def test_a_finished_launch_is_made_again_for_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "nobody", 0)
    for code, launched in (("code", 2), ("code", 2), ("other code", 4)):
        train(TRAINING, tmp_path / ".partial", "train-nano", code, silent)
        assert len(ranks.launched) == launched


@pytest.mark.parametrize("culprit", ["finalist_1, M=2", "developer, M=2"])
def test_an_arm_whose_rank_was_ended_from_outside_is_tried_alone_and_trained_with_the_others(
    culprit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, culprit, 0, times=1)
    rows = train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert [(n, len(names)) for n, names in ranks.launched] == [(0, 3), (0, 1), (0, 3), (1, 3)]
    assert {row["status"] for row in rows} == {"trained"} and len(rows) == 6


def test_the_only_arm_that_runs_when_it_is_tried_once_more_need_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2", 0, times=1)
    alone = replace(TRAINING, arms=ARMS[1:2], launches=1)
    [row] = train(alone, tmp_path / ".partial", "longtrain-nano", "", silent)
    assert (row["status"], len(ranks.launched)) == ("trained", 2)


def test_the_only_arm_that_fails_again_is_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2", 0)
    alone = replace(TRAINING, arms=ARMS[1:2], launches=1)
    [row] = train(alone, tmp_path / ".partial", "longtrain-nano", "", silent)
    assert (row["status"], len(ranks.launched)) == ("crashed", 2)


@pytest.mark.parametrize(("purpose", "launched"), [(Purpose.TIMED, 2), (Purpose.LOSS, 1)])
def test_a_launch_that_others_disturbed_is_repeated_where_it_times_something(
    purpose: Purpose, launched: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "nobody", 0, foreign_cpu_share=0.9)
    alone = replace(TRAINING, arms=(replace(ARMS[0], purposes=(purpose,)),), launches=1)
    train(alone, tmp_path / ".partial", "longtrain-nano", "", silent)
    assert len(ranks.launched) == launched


def test_a_developers_arm_that_crashes_ends_the_training_and_leaves_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ranks(monkeypatch, "developer, M=2", 1)
    with pytest.raises(LaunchError, match=r"kept: .*failure-1/rank-1"):
        train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)


def test_what_a_dead_run_left_of_a_launch_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, "nobody", 0)
    left = tmp_path / ".partial" / f"train-nano-{TRAINING.key('')}" / "launch-0.0"
    (left / "modules").mkdir(parents=True)
    (left / "rank-0.error").write_text("of a run that is dead")
    train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert len(ranks.launched) == 2 and not left.exists()
