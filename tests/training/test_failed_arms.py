"""A finalist that fails in a training launch is left out of the others and cannot be chosen. Needs no ranks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.backends import backend as backends
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.evidence.trained import arms_by_model, failed_arms
from overlayccl_core.gates.training import passes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from overlayccl_core.training import launches
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import Arm, ArmSite, RankRecord, TrainingPlan, write_records
from tests.timing.batches import silent
from tests.training.test_rows import SEEN
from tests.training.test_rows import TRAINING as OF_ROWS

NO_STAMPS = pl.DataFrame(schema=STAMPS.schema)
SITE = ArmSite(
    site="exit", direction=Direction.FORWARD, module="", case="tp_mlp/n2", deployed=False, early=False,
    members=((0, 1),), shapes=(),
)  # fmt: skip
ARMS = tuple(
    Arm(name=name, microbatches=2, sites=(replace(SITE, module=f"modules/{name}.py"),))
    for name in ("developer", "finalist_1", "finalist_2")
)
TRAINING = replace(OF_ROWS, arms=ARMS, sources={})


class Ranks:
    """Stands for a backend: an arm's steps take 9 ns, or what `ns` has.

    In launch `number`, rank 1 dies at the first of the culprits, so many times.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *culprits: str,
        number: int = 0,
        times: int = 99,
        foreign_cpu_share: float = 0.0,
        ns: Mapping[str, int] = {},
    ) -> None:
        self.culprits, self.number, self.times = culprits, number, times
        self.foreign_cpu_share, self.ns = foreign_cpu_share, ns
        self.launched: list[tuple[int, tuple[str, ...]]] = []
        backend = SimpleNamespace(train=self.train, needs_cores=lambda _where: True)
        for module in (launches, backends):
            monkeypatch.setattr(module, "backend_of", lambda _where: backend)

    def train(self, where: Deployment, started: Launch, watch: Any) -> float:
        assert where == TRAINING.deployment and started.worker == "overlayccl_core.training.worker"
        plan = TrainingPlan.read(started.folder)
        self.launched.append((plan.launch, tuple(started.names)))
        assert [p.name for p in started.folder.iterdir() if p.suffix == ".error"] == []
        culprit = next((name for name in started.names if name in self.culprits), None)
        if plan.launch == self.number and culprit and self.times:
            self.times -= 1
            (started.folder / "rank-1.error").write_text("Traceback of rank 1")
            raise LaunchError("rank 1 of 2 died", kind=Failure.CRASHED, ranks=(1,), job=culprit)
        for rank in range(plan.ranks):
            write_records(started.folder, rank, self.records(plan))
        NodeReport(fewest_cores=where.ranks_per_node - 1).write(started.folder)
        return self.foreign_cpu_share

    def records(self, plan: TrainingPlan) -> list[RankRecord]:
        """Timed steps of every arm, then those for its losses."""
        timed = [
            RankRecord(
                arm=index,
                purpose=Purpose.TIMED,
                seed=plan.launch,
                cold=1,
                starts_ns=(0,) * 4,
                ends_ns=(self.ns.get(arm.name, 9),) * 4,
                losses=(1.0,) * 4,
                inspection=SEEN if plan.inspects else None,
            )
            for index, arm in enumerate(plan.arms)
        ]
        return timed + [
            replace(timed[index], purpose=Purpose.LOSS, seed=seed, cold=0, inspection=None)
            for seed in plan.settings.loss_seeds
            for index, arm in enumerate(plan.arms)
            if Purpose.LOSS in arm.purposes
        ]


@pytest.mark.parametrize("number", [0, 1])
def test_a_finalist_that_crashes_is_left_out_and_cannot_be_chosen(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2", number=number)
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
    assert steps["oversubscribed"].all(), "by the cores that agents tell of; a failed arm's as the others'"


def test_a_run_that_goes_on_does_not_start_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2")
    first = train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert train(TRAINING, tmp_path / ".partial", "train-nano", "", silent) == first
    assert len(ranks.launched) == 4


def test_a_finished_launch_is_made_again_for_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch)
    for code, launched in (("code", 2), ("code", 2), ("other code", 4)):
        train(TRAINING, tmp_path / ".partial", "train-nano", code, silent)
        assert len(ranks.launched) == launched


@pytest.mark.parametrize("culprit", ["finalist_1, M=2", "developer, M=2"])
def test_an_arm_whose_rank_was_ended_from_outside_is_tried_alone_and_trained_with_the_others(
    culprit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, culprit, times=1)
    rows = train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert [(n, len(names)) for n, names in ranks.launched] == [(0, 3), (0, 1), (0, 3), (1, 3)]
    assert {row["status"] for row in rows} == {"trained"} and len(rows) == 6


@pytest.mark.parametrize(("times", "status"), [(1, "trained"), (2, "crashed")])
def test_the_only_arm_is_tried_once_more_which_is_its_launch_or_a_row_that_says_so(
    times: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, "finalist_1, M=2", times=times)
    alone = replace(TRAINING, arms=ARMS[1:2], launches=1)
    [row] = train(alone, tmp_path / ".partial", "longtrain-nano", "", silent)
    assert (row["status"], len(ranks.launched)) == (status, 2)


@pytest.mark.parametrize(("purpose", "launched"), [(Purpose.TIMED, 2), (Purpose.LOSS, 1)])
def test_a_launch_that_others_disturbed_is_repeated_where_it_times_something(
    purpose: Purpose, launched: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, foreign_cpu_share=0.9)
    alone = replace(TRAINING, arms=(replace(ARMS[0], purposes=(purpose,)),), launches=1)
    train(alone, tmp_path / ".partial", "longtrain-nano", "", silent)
    assert len(ranks.launched) == launched


def test_a_repeat_times_steps_and_keeps_what_the_first_attempt_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, foreign_cpu_share=0.9)
    plans = []

    def records(plan: TrainingPlan) -> list[RankRecord]:
        plans.append(plan)
        ranks.foreign_cpu_share = 0.9 if plan.inspects else 0.0
        ranks.ns = {} if plan.inspects else dict.fromkeys(("developer", "finalist_1"), 7000)
        return Ranks.records(ranks, plan)

    monkeypatch.setattr(ranks, "records", records)
    arms = tuple(replace(arm, purposes=(Purpose.TIMED, Purpose.LOSS)) for arm in ARMS[:2])
    losses = replace(TRAINING.settings, loss_seeds=(0, 1))
    asked = replace(TRAINING, arms=arms, settings=losses, launches=1)
    rows = train(asked, tmp_path / ".partial", "train-nano", "", silent)
    assert [(plan.launch, plan.inspects, plan.settings.loss_seeds) for plan in plans[:: plans[0].ranks]] == [
        (0, True, (0, 1)),
        (0, False, ()),
    ]
    of = {(row["arm"], row["purpose"], row["seed"]): row for row in rows}
    assert len(of) == len(rows) == 6
    for arm in ("developer", "finalist_1"):
        assert of[arm, "timed", 0]["steps_us"] == [7.0] * 3 and of[arm, "loss", 1]["steps_us"] == [0.009] * 4
        assert of[arm, "timed", 0]["gradient_rel_error"] == SEEN.gradient_rel_error
    assert {(row["matmuls"], row["disturbed"], row["foreign_cpu_share"]) for row in rows} == {
        (SEEN.matmuls, False, 0.0)
    }


def test_a_developers_arm_that_crashes_ends_the_training_and_leaves_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ranks(monkeypatch, "developer, M=2", number=1)
    with pytest.raises(LaunchError, match=r"kept: .*failure-1/rank-1"):
        train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)


def test_what_a_dead_run_left_of_a_launch_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(monkeypatch)
    left = tmp_path / ".partial" / f"train-nano-{TRAINING.key('')}" / "launch-0.0"
    (left / "modules").mkdir(parents=True)
    (left / "rank-0.error").write_text("of a run that is dead")
    train(TRAINING, tmp_path / ".partial", "train-nano", "", silent)
    assert len(ranks.launched) == 2 and not left.exists()
