"""From what ranks found to rows of the table steps; which of two launches is kept. Needs no ranks."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.configuration import corpus, models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.problem import Direction
from overlayccl_core.training import launches
from overlayccl_core.training.launches import Training, rows_of, train
from overlayccl_core.training.plan import (
    Arm,
    ArmSite,
    Inspection,
    RankRecord,
    StepSettings,
    TrainingPlan,
    read_records,
    write_records,
)

ARMS = (Arm(name="developer", microbatches=2), Arm(name="hand_bundled", microbatches=2))
HERE = load("config/deployments/local-2.yaml")
SETTINGS = StepSettings(seconds=1, minimum_steps=2, maximum_steps=4, loss_steps=0, loss_seeds=())
SEEN = Inspection(
    matmuls=7,
    matmul_digest="d",
    collectives=3,
    calls=(("exit", 3),),
    programs=(("exit", "p"),),
    library_version="torch 2",
    peak_memory_bytes=10,
    gradient_rel_error=1e-6,
)


TRAINING = Training(
    model=models.load("nano"), arms=ARMS, sources={"modules/a.py": "x"}, deployment=HERE, fingerprint="here",
    settings=SETTINGS, launches=2,
)  # fmt: skip


def plan(launch: int = 0) -> TrainingPlan:
    return TrainingPlan(launch=launch, ranks=2, model=models.load("nano"), settings=SETTINGS, arms=ARMS)


def record(arm: int, starts: list[int], ends: list[int], losses: list[float], **fields: Any) -> RankRecord:
    return RankRecord(
        arm=arm, purpose=Purpose.TIMED, seed=0, cold=1, starts_ns=tuple(starts), ends_ns=tuple(ends),
        losses=tuple(losses), **fields,
    )  # fmt: skip


def test_a_step_lasts_from_the_last_rank_s_start_to_the_last_rank_s_end() -> None:
    ranks = [
        [record(0, [0, 10_000], [5_000, 30_000], [2.0, 1.0], inspection=SEEN)],
        [record(0, [1_000, 12_000], [9_000, 20_000], [4.0, 3.0], inspection=SEEN)],
    ]
    [row] = rows_of(plan(), ranks, 0.05, "here", oversubscribed=False, told=NodeReport())
    assert (row["cold_us"], row["steps_us"]) == ([8.0], [18.0])
    assert row["losses"] == [[2.0, 4.0], [1.0, 3.0]]
    assert row["stamps"] == {"exit": {"program": "p", "library_version": "torch 2", "calls": 3}}
    assert not row["disturbed"]
    assert rows_of(plan(), ranks, 0.2, "here", oversubscribed=True, told=NodeReport())[0]["disturbed"]


def test_figures_are_of_the_rank_with_most_and_matrix_products_of_every_rank() -> None:
    """Stages of a pipeline compute different things: rank 0 tells nothing of what the others leave out."""

    def row(*seen: Inspection, losses: tuple[list[float], ...] = ([2.0], [4.0])) -> dict[str, Any]:
        pairs = zip(seen, losses, strict=True)
        ranks = [[record(0, [0], [5_000], mine, inspection=one)] for one, mine in pairs]
        [made] = rows_of(plan(), ranks, 0.05, "here", oversubscribed=False, told=NodeReport())
        return made

    other = replace(
        SEEN, matmuls=9, matmul_digest="e", collectives=4, peak_memory_bytes=30, gradient_rel_error=math.inf
    )
    told = row(SEEN, other, losses=([], [4.0]))
    assert (told["matmuls"], told["collectives"], told["peak_memory_bytes"]) == (9, 4, 30)
    assert told["gradient_rel_error"] == math.inf
    assert told["losses"] == [[4.0]]  # the first computes none
    assert row(SEEN, SEEN)["matmul_digest"] != told["matmul_digest"]
    assert row(SEEN, replace(other, matmuls=1))["matmul_digest"] == told["matmul_digest"]


def test_what_ranks_write_is_what_is_read(tmp_path: Path) -> None:
    one = record(1, [0], [1], [2.0], inspection=SEEN, validation_loss=1.5)
    for rank in range(2):
        write_records(tmp_path, rank, [one])
    assert read_records(tmp_path, 2) == [[one], [one]]
    site = ArmSite(
        site="exit", direction=Direction.BACKWARD, module="modules/a.py", case="tp_mlp/n2", deployed=False,
        early=True, members=((0, 1),), shapes=((("total", 0, "1"), (1, 3)),),
    )  # fmt: skip
    planned = replace(plan(), arms=(replace(ARMS[0], sites=(site,), purposes=(Purpose.LOSS,)), ARMS[1]))
    planned.write(tmp_path / "work", {"modules/a.py": "x = 1\n"})
    assert TrainingPlan.read(tmp_path / "work") == planned
    assert (tmp_path / "work" / "modules" / "a.py").read_text() == "x = 1\n"


def launched(monkeypatch: pytest.MonkeyPatch, shares: list[float], tmp_path: Path) -> list[dict[str, Any]]:
    """Launches that find the same each time; others take these shares of the CPU."""
    left = iter(shares)

    def one(self: launches._TrainingBatch, number: int) -> None:
        entries = [
            record(k, [0, 0], [1, 1], [1.0, 1.0], inspection=None if number else SEEN) for k in range(2)
        ]
        rows = rows_of(
            plan(number), [entries, entries], next(left), "here", oversubscribed=False, told=NodeReport()
        )
        self.kept.keep(self.kept.folder / f"launch-{number}.{self.kept.next_attempt(number)}", rows)

    monkeypatch.setattr(launches._TrainingBatch, "_launch", one)
    return train(TRAINING, tmp_path, "train-test", "", lambda _text: None)


def test_a_disturbed_launch_is_repeated_once_and_the_quieter_one_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = launched(monkeypatch, [0.5, 0.3, 0.01], tmp_path)
    shares = {row["launch"]: (row["foreign_cpu_share"], row["disturbed"]) for row in rows}
    assert shares == {0: (0.3, True), 1: (0.01, False)}
    rows = launched(monkeypatch, [0.2, 0.4, 0.01], tmp_path / "other")
    assert rows[0]["foreign_cpu_share"] == 0.2


def test_launches_are_not_repeated_where_that_did_not_help_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = launched(monkeypatch, [0.5, 0.4, 0.3, 0.0], tmp_path)
    assert {row["launch"]: row["foreign_cpu_share"] for row in rows} == {0: 0.4, 1: 0.3}


def test_what_the_first_launch_counted_holds_for_all_rows_of_an_arm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = launched(monkeypatch, [0.0, 0.0], tmp_path)
    assert {row["matmuls"] for row in rows} == {7}
    assert {row["gradient_rel_error"] for row in rows if row["launch"]} == {None}


def test_the_key_of_kept_launches_knows_what_decides_their_meaning() -> None:
    one = TRAINING
    others = [
        replace(one, sources={"modules/a.py": "y"}),
        replace(one, arms=ARMS[:1]),
        replace(one, fingerprint="there"),
        replace(one, settings=replace(SETTINGS, seconds=2)),
        replace(one, model=models.load("nano-wide")),
    ]
    assert len({t.key("code") for t in (one, *others)} | {one.key("other")}) == len(others) + 2
    assert replace(one, launches=5).key("code") == one.key("code")


def test_launches_of_another_text_in_the_same_folder_are_not_taken_up(tmp_path: Path) -> None:
    keys = []
    for text in ("x", "x", "y"):
        (tmp_path / "a.txt").write_text(text * 6000)
        corpus.read.cache_clear()  # as in a process of its own
        model = models.load("nano").changed(corpus=str(tmp_path))
        keys.append(replace(TRAINING, model=model).key("code"))
    assert keys[0] == keys[1] != keys[2]
