"""What launches leave: batches until their table is written, evidence of failures, nothing of dead runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.backends.launch import Failure, LaunchError
from overlayccl_core.backends.measured import TimedProgram
from overlayccl_core.backends.partial import KEY_DIGITS, Evidence, at_work, forget, settle
from overlayccl_core.backends.timed_launches import LaunchStore, missing
from overlayccl_core.backends.timing import time_programs
from overlayccl_core.program.json_form import dumps
from overlayccl_core.tables import records
from tests.backends.batches import batch, deployment, jobs


def test_only_the_batches_of_the_rule_are_forgotten(tmp_path: Path) -> None:
    key = "0f" * (KEY_DIGITS // 2)
    mine, others = tmp_path / f"bench-a-{key}", [tmp_path / f"bench-a-b-{key}", tmp_path / f"probe-{key}"]
    for folder in (mine, *others):
        folder.mkdir()
        (folder / "launch-0.parquet").touch()
    forget(tmp_path, "bench-a", [])
    assert not mine.exists() and all(folder.exists() for folder in others)
    settle(tmp_path)
    assert not list(tmp_path.rglob(mine.name)) and all(folder.exists() for folder in others)


@pytest.mark.parametrize(("recorded", "again"), [(True, False), (False, False), (False, True)])
def test_launches_whose_table_nobody_recorded_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, again: bool
) -> None:
    """Snakemake was killed after the table was written: it has the rule run again, which measures nothing."""
    monkeypatch.chdir(tmp_path)
    partial, table = Path("results/local/.partial"), Path("results/local/bench.parquet")
    batch = partial / f"bench-a-{'0f' * (KEY_DIGITS // 2)}"
    batch.mkdir(parents=True)
    (batch / "launch-0.parquet").touch()
    marker = records.INCOMPLETE / records.place_of(table).name
    marker.parent.mkdir(parents=True)
    marker.touch()
    forget(partial, "bench-a", [table])
    assert not batch.exists()
    if recorded:
        marker.unlink()
    if again:  # somebody has measured meanwhile: that counts
        batch.mkdir()
        (batch / "launch-1.parquet").touch()
    settle(partial)
    kept = [] if recorded else ["launch-1.parquet" if again else "launch-0.parquet"]
    assert [file.name for file in partial.rglob("*") if file.is_file()] == kept
    assert (partial / "written").exists() is False


def test_a_launch_begins_in_an_empty_folder_and_leaves_none(tmp_path: Path) -> None:
    work, evidence = tmp_path / "launch-0", Evidence(logs=tmp_path / "logs", name="bench")
    (work / "modules").mkdir(parents=True)
    (work / "out-0-0.npz").write_text("of a dead run")
    with at_work(work, evidence) as folder:
        assert list(folder.iterdir()) == []
    assert not work.exists() and not evidence.logs.exists()


def test_what_ranks_said_is_kept_launch_by_launch_and_the_message_names_the_file(tmp_path: Path) -> None:
    evidence = Evidence(logs=tmp_path / "logs", name="bench-a")
    for number, rank in enumerate((1, 0)):
        with pytest.raises(LaunchError) as error, at_work(tmp_path / "launch-0", evidence) as work:
            (work / "launch.log").write_text("the log")
            (work / "rank-1.error").write_text("Traceback of rank 1")
            raise LaunchError("a rank died", kind=Failure.CRASHED, ranks=(rank,), job="x")
        folder = tmp_path / "logs" / f"bench-a.failure-{number}"
        read_first = folder / ("rank-1.error" if rank == 1 else "launch.log")
        assert error.value.evidence == read_first and str(read_first) in str(error.value)
        assert {p.name for p in folder.iterdir()} == {"launch.log", "rank-1.error"}
    evidence.clear()
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_timed_launch_of_a_dead_run_is_taken_over_or_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was cut off while its folder was made has nothing to take over."""
    plugins = Path(__file__).parents[1] / "plugins"
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", str(plugins))
    here = deployment().changed(backend="paper", library="numpy")
    seen: list[Path] = []
    recover = LaunchStore.recover

    def plant(store: LaunchStore) -> None:
        (store.folder / "launch-0" / "modules").mkdir(parents=True)
        seen.append(store.folder / "launch-0")
        recover(store)

    monkeypatch.setattr(LaunchStore, "recover", plant)
    on_paper = [replace(job, source=dumps(job.program)) for job in jobs()]
    timed = time_programs(batch(tmp_path / ".partial", on_paper, deployment=here), lambda _line: None)
    assert {one.rounds for one in timed} == {4} and not seen[0].exists()


def test_a_batch_is_finished_where_its_first_plan_is() -> None:
    cut = [[timed("reduce", 3, planned=8, complete=False)], [timed("reduce", 5, planned=5, complete=False)]]
    assert missing(jobs(names=("reduce",)), cut[:1]) == {"reduce": 5}
    assert missing(jobs(names=("reduce",)), cut) == {}
    nearly = [timed("reduce", 7, planned=8, complete=False)]
    assert missing(jobs(names=("reduce",)), [nearly]) == {"reduce": 2}  # one round alone has no repeat


def timed(key: str, rounds: int, *, planned: int, complete: bool) -> TimedProgram:
    return TimedProgram(
        key=key, program=key, launch=0, repeats=1, cold_us=(1.0,), samples_us=(1.0,) * rounds,
        slowest_rank=(0,) * rounds, oversubscribed=False, foreign_cpu_share=None, disturbed=False,
        fingerprint="here", planned_rounds=planned, complete=complete,
    )  # fmt: skip
