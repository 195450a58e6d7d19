"""What launches leave: batches until their table is written, evidence of failures, nothing of dead runs."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.trials import Trial
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.program.json_form import dumps
from overlayccl_core.tables import records
from overlayccl_core.timing.batch import ValueCheck, _Timer
from overlayccl_core.timing.failed_jobs import FailedJobs
from overlayccl_core.timing.launch_store import KeptLaunches
from overlayccl_core.timing.partial import KEY_DIGITS, Evidence, at_work, forget, settle
from tests.timing.batches import batch, deployment, jobs, silent


def test_only_the_batches_of_the_rule_are_forgotten(tmp_path: Path) -> None:
    key = "0f" * (KEY_DIGITS // 2)
    mine, others = tmp_path / f"bench-a-{key}", [tmp_path / f"bench-a-b-{key}", tmp_path / f"probe-{key}"]
    for folder in (mine, *others):
        folder.mkdir()
        (folder / "launch-0.0.json").touch()
    forget(tmp_path, "bench-a", [])
    assert not mine.exists() and all(folder.exists() for folder in others)
    settle(tmp_path)
    assert not list(tmp_path.rglob(mine.name)) and all(folder.exists() for folder in others)


@pytest.mark.parametrize(("recorded", "again"), [(True, False), (False, False), (False, True)])
def test_launches_whose_table_nobody_recorded_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, again: bool
) -> None:
    """Snakemake was killed after the table was written: it has the rule run again, which measures nothing."""
    partial, batch, table = unforgotten(tmp_path, monkeypatch)
    marker = records.INCOMPLETE / records.record_path(table).name
    marker.parent.mkdir(parents=True)
    marker.touch()
    forget(partial, "bench-a", [table])
    assert not batch.exists()
    table.touch()
    if recorded:
        marker.unlink()
    if again:  # somebody has measured meanwhile: that counts
        batch.mkdir()
        (batch / "launch-0.1.json").touch()
    settle(partial)
    kept = [] if recorded else ["launch-0.1.json" if again else "launch-0.0.json"]
    assert [file.name for file in partial.rglob("*") if file.is_file()] == kept
    assert (partial / "written").exists() is False


def unforgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """(partial, batch, table) of a batch whose table is not there yet."""
    monkeypatch.chdir(tmp_path)
    partial, table = Path("results/local/.partial"), Path("results/local/bench.parquet")
    batch = partial / f"bench-a-{'0f' * (KEY_DIGITS // 2)}"
    batch.mkdir(parents=True)
    (batch / "launch-0.0.json").touch()
    return partial, batch, table


def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """(partial, batch, table) of a batch that was put away, and whose table is there and recorded."""
    partial, batch, table = unforgotten(tmp_path, monkeypatch)
    table.touch()
    forget(partial, "bench-a", [table])
    return partial, batch, table


@pytest.mark.parametrize("text", [None, "", '["results/lo', "all"], ids=["gone", "empty", "torn", "no table"])
def test_launches_whose_table_is_gone_or_not_told_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """A job that fails after it wrote its table loses it: Snakemake also takes its mark away."""
    partial, batch, table = away(tmp_path, monkeypatch)
    made = partial / "written" / batch.name / "made.json"
    if text == "all":
        table.unlink()
    elif text is None:
        made.unlink()
    else:
        made.write_text(text)
    settle(partial)
    assert [file.name for file in batch.iterdir()] == ["launch-0.0.json"]


@pytest.mark.parametrize("recorded", [True, False])
def test_settling_may_be_killed_at_any_step_and_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """Killed before each of its changes in turn."""
    changes = [(shutil, "rmtree"), (Path, "rename"), (Path, "replace"), (Path, "unlink"), (Path, "rmdir")]
    for number, (owner, name) in enumerate(changes):
        folder = tmp_path / str(number)
        folder.mkdir()
        partial, batch, table = away(folder, monkeypatch)
        if not recorded:
            table.unlink()
        with monkeypatch.context() as killed, suppress(KeyboardInterrupt):
            killed.setattr(owner, name, interrupted)
            settle(partial)
        settle(partial)
        assert list(partial.rglob("launch-*")) == ([] if recorded else [batch / "launch-0.0.json"]), name
        assert not (partial / "written").exists()


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_launch_begins_in_an_empty_folder_and_leaves_none(tmp_path: Path) -> None:
    work, evidence = tmp_path / "launch-0.0", Evidence(logs=tmp_path / "logs", name="bench")
    (work / "modules").mkdir(parents=True)
    (work / "out-0-0.npz").write_text("of a dead run")
    with at_work(work, evidence) as folder:
        assert list(folder.iterdir()) == []
    assert not work.exists() and not evidence.logs.exists()


def test_what_ranks_said_is_kept_launch_by_launch_and_the_message_names_the_file(tmp_path: Path) -> None:
    evidence = Evidence(logs=tmp_path / "logs", name="bench-a")
    for number, rank in enumerate((1, 0)):
        with pytest.raises(LaunchError) as error, at_work(tmp_path / "launch-0.0", evidence) as work:
            (work / "launch.log").write_text("the log")
            (work / "rank-1.error").write_text("Traceback of rank 1")
            raise LaunchError("a rank died", kind=Failure.CRASHED, ranks=(rank,), job="x")
        folder = tmp_path / "logs" / f"bench-a.failure-{number}"
        read_first = folder / ("rank-1.error" if rank == 1 else "launch.log")
        assert error.value.evidence == read_first and str(read_first) in str(error.value)
        assert {p.name for p in folder.iterdir()} == {"launch.log", "rank-1.error"}
    (tmp_path / "goes on").mkdir()
    (tmp_path / "goes on" / "launch-0.0.json").touch()
    for name, left in (("goes on", 2), ("new", 0)):
        KeptLaunches(tmp_path / name, evidence, silent)
        assert len(list((tmp_path / "logs").iterdir())) == left


pytestmark = pytest.mark.usefixtures("plug_ins")


def test_a_timed_launch_of_a_dead_run_is_taken_over_or_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was cut off while its folder was made has nothing to take over."""
    timer, _ = on_paper(tmp_path, monkeypatch, 0.0)
    left = timer.kept.folder / "launch-0.0"
    (left / "modules").mkdir(parents=True)
    timer._recover()
    timed = timer.finish()
    assert {one.rounds for one in timed} == {4} and not left.exists()


def on_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *ends: LaunchError | float
) -> tuple[_Timer, list[list[str]]]:
    """A batch whose launches end one after another as told: by an error at the first of its jobs, or well, others
    taking so much of the CPU; and what is kept before each launch."""
    here = deployment().changed(backend="paper", library="numpy")
    these = [replace(job, source=dumps(job.program)) for job in jobs()]
    timer = _Timer(batch(tmp_path / ".partial", these, deployment=here), lambda _line: None)
    timer.settings = replace(timer.settings, repeat_disturbed=True, foreign_cpu_limit=0.1)
    left, kept, time = iter(ends), list[list[str]](), timer._time

    def launched(launch: int, its: Sequence[Job], work: Path) -> float:
        kept.append(sorted(path.name for path in timer.kept.folder.glob("launch-*.json")))
        time(launch, its, work)
        end = next(left)
        if isinstance(end, LaunchError):
            raise end
        return end

    monkeypatch.setattr(timer, "_time", launched)
    monkeypatch.setattr(timer, "tried", lambda _check: FailedJobs(timer.kept.folder, lambda _line: None))
    return timer, kept


NOTHING_WRONG = ValueCheck(trial=lambda job: Trial(job=job, inputs={}), wrong=lambda trial, seen: "")
KILLED = LaunchError("a rank died", kind=Failure.CRASHED, ranks=(1,), job="reduce")


def test_a_finished_launch_is_kept_where_a_rank_of_the_next_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer, kept = on_paper(tmp_path, monkeypatch, 0.9, KILLED, 0.0, 0.0)  # the third is the suspect alone
    timed, failed = timer.finish_without_failed(NOTHING_WRONG)
    assert kept == [[], *[["launch-0.0.json"]] * 3]
    assert not failed and {one.foreign_cpu_share for one in timed} == {0.0}


def test_of_a_finished_launch_the_samples_of_what_fails_later_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer, _ = on_paper(tmp_path, monkeypatch, 0.05, KILLED, KILLED)
    timer.launch(timer.jobs)
    with pytest.raises(LaunchError):
        timer.launch(timer.jobs)
    timer.kept.discard_cut_off()
    timed, failed = timer.finish_without_failed(NOTHING_WRONG)
    assert not failed and {one.key for one in timed} == {job.key for job in jobs()}
    timer.jobs = [job for job in timer.jobs if job.key != "reduce"]
    assert {one.key for one in timer.finish()} == {job.key for job in jobs()} - {"reduce"}


def test_that_a_launch_was_disturbed_is_known_also_where_its_folder_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the launch was kept, before its folder was removed."""
    timer, _ = on_paper(tmp_path, monkeypatch, 0.9)
    with monkeypatch.context() as killed, suppress(KeyboardInterrupt):
        killed.setattr(shutil, "rmtree", interrupted)
        timer.launch(timer.jobs)
    assert (timer.kept.folder / "launch-0.0").is_dir()
    timer._recover()
    [launch] = timer.kept.attempts()
    assert (launch.complete, launch.disturbed, launch.foreign_cpu_share) == (True, True, 0.9)
    assert not (timer.kept.folder / "launch-0.0").exists()
