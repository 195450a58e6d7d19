"""What the benchmark of killed runs looks at: where a blow falls, which launches are lost."""

import json
import os
from pathlib import Path

import polars as pl
import pytest

from benchmarks.copies import TREE, Copy, Job
from benchmarks.killed import Blow, blow_at
from overlayccl_core.tables import attempts, records
from tests.took import took

JOBS = [
    Job(name="probe", rule="probe", began_s=10.0, ended_s=40.0),
    Job(name="known_ways-a", rule="known_ways", began_s=42.0, ended_s=60.0),
    Job(name="fit", rule="fit", began_s=45.0, ended_s=50.0),
]


@pytest.mark.parametrize(
    ("at_s", "job", "inside", "after_s"),
    [
        (4.0, None, False, 4.0),
        (10.0, "probe", True, 0.0),
        (39.0, "probe", True, 29.0),
        (41.0, "probe", False, 1.0),
        (46.0, "fit", True, 1.0),  # of two at work that which began last
        (55.0, "known_ways-a", True, 13.0),
        (65.0, "known_ways-a", False, 5.0),
    ],
)
def test_a_point_of_an_undisturbed_run_is_told_by_the_job_that_it_falls_into(
    at_s: float, job: str | None, inside: bool, after_s: float
) -> None:
    assert blow_at(at_s, JOBS) == Blow(at_s=at_s, job=job, inside=inside, after_s=after_s)


KEY = "0f" * 8


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "copy")


def launch(samples: list[float], foreign: float, *, complete: bool = True) -> pl.DataFrame:
    rows = {"samples_us": [samples], "foreign_cpu_share": [foreign], "complete": [complete]}
    return pl.DataFrame(rows)


def keep(copy: Copy, frame: pl.DataFrame, batch: str = f"bench-a-{KEY}") -> Path:
    file = copy.root / TREE / ".partial" / batch / "launch-0.0.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"rows": frame.drop("complete").to_dicts(), "complete": frame["complete"][0]}))
    return file


def tell(
    copy: Copy, frame: pl.DataFrame, table: str = "problems/a/bench.parquet", job: str = "bench-a"
) -> None:
    """A table that a recorded job has made."""
    file, log = Path(TREE, table), f"{TREE}/logs/{job}.log"
    record = {"rule": "bench", "input": [], "log": [log], "shellcmd": "", "params": []}
    for path, text in (
        (log, ""),
        (records.record_path(file), json.dumps(record | {"starttime": 1, "endtime": 2})),
    ):
        (copy.root / path).parent.mkdir(parents=True, exist_ok=True)
        (copy.root / path).write_text(text)
    (copy.root / file).parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(copy.root / file)


def test_a_launch_that_is_kept_nowhere_and_in_no_table_is_lost(copy: Copy) -> None:
    file = keep(copy, launch([1.5, 2.5], 0.2))
    [one] = copy.finished()
    assert not copy.is_lost(one)
    away = file.parents[1] / "written" / file.parent.name / file.name
    away.parent.mkdir(parents=True)
    file.rename(away)
    assert not copy.is_lost(one)
    away.unlink()
    assert copy.is_lost(one)
    keep(copy, launch([3.5, 4.5], 0.2))  # measured again under its name
    assert copy.is_lost(one)


@pytest.mark.parametrize(
    ("samples", "foreign", "lost"),
    [([1.5, 2.5], 0.2, False), ([3.5, 4.5], 0.1, False), ([3.5, 4.5], 0.2, True)],
    ids=["it is in there", "one that was disturbed less is", "another"],
)
def test_a_launch_whose_table_is_written_is_in_it_or_was_repeated_with_less_noise(
    copy: Copy, samples: list[float], foreign: float, lost: bool
) -> None:
    file = keep(copy, launch([1.5, 2.5], 0.2))
    [one] = copy.finished()
    file.unlink()
    tell(copy, launch(samples, foreign))
    tell(
        copy, launch([1.5, 2.5], 0.0), "problems/b/bench.parquet", "bench-b"
    )  # of another job: it does not count
    assert copy.is_lost(one) is lost


def test_a_launch_of_a_training_is_made_up_for_by_the_same_launch_alone(copy: Copy) -> None:
    file = copy.root / TREE / ".partial" / f"train-nano-{KEY}" / "launch-1.0.json"
    file.parent.mkdir(parents=True)
    rows = [{"launch": 1, "foreign_cpu_share": 0.3, "steps_us": [5.5], "more": {}}]
    file.write_text(json.dumps({"rows": rows, "complete": True}))
    [one] = copy.finished()
    file.unlink()
    for number, lost in ((0, True), (1, False)):
        rows = {"steps_us": [[6.5]], "foreign_cpu_share": [0.1], "launch": [number]}
        tell(copy, pl.DataFrame(rows), "train/nano/steps.parquet", "train-nano")
        assert copy.is_lost(one) is lost


def test_what_was_cut_off_is_no_finished_launch(copy: Copy) -> None:
    keep(copy, launch([1.5], 0.2, complete=False))
    assert copy.finished() == []


def test_batches_are_of_the_job_whose_name_they_begin_with(copy: Copy) -> None:
    (copy.root / TREE / "logs").mkdir(parents=True)
    for job in ("confirm", "train-nano", "train-nano-small"):
        (copy.root / TREE / "logs" / f"{job}.log").touch()
    assert copy.job_of_batch("confirm-0") == "confirm"
    assert copy.job_of_batch("train-nano-small") == "train-nano-small"
    assert copy.job_of_batch("train-nano") == "train-nano"


@pytest.mark.parametrize("place", ["problems/b", ".partial/bench-b"])
def test_a_folder_that_a_run_takes_away_meanwhile_is_none(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    tell(copy, launch([1.5, 2.5], 0.2))
    keep(copy, launch([3.5, 4.5], 0.2))
    gone = copy.root / TREE / place
    gone.mkdir()
    listed = os.scandir

    def late(path: str | Path) -> object:
        if Path(path) == gone and gone.exists():
            gone.rmdir()
        return listed(path)

    monkeypatch.setattr(os, "scandir", late)
    assert len(copy.measured("bench-a")) == 1
    assert len(copy.finished()) == 1
    assert not gone.exists()


def test_a_job_is_done_when_it_has_made_its_tables(copy: Copy) -> None:
    log = copy.root / TREE / "logs/probe.log"
    log.parent.mkdir(parents=True)
    attempts.begin(log, 0.0)
    assert not copy.is_done("probe")
    took(log, 1.0)
    assert copy.is_done("probe")
