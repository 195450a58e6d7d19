"""A machine that goes wrong: no room, nothing may be written, a clock is set back. One message, nothing lost."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.repository import ROOT, copy_to, snakemake
from workflow_scripts import following, one_run, stamps

SELFTEST = "results/local/selftest.parquet"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    return copy_to(folder)


@pytest.fixture
def results(root: Path) -> Iterator[Path]:
    """The folder of results, on a file system of 2 MiB."""
    folder = root / "results"
    folder.mkdir()
    if subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)), check=False
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


def remount(folder: Path, option: str) -> None:
    subprocess.run(("mount", "-o", f"remount,{option}", str(folder)), check=True)


@pytest.mark.ranks
def test_a_full_disk_is_one_message_and_the_same_command_goes_on_when_there_is_room(
    root: Path, results: Path
) -> None:
    full = snakemake(root, "--profile", "local", SELFTEST)
    said = full.stdout + full.stderr
    assert full.returncode == 1 and "Traceback" not in said and "BUG" not in said
    [message] = [line for line in said.splitlines()[-3:] if "ERROR" in line]
    assert "the disk is full (" in message and "free in results/local" in message and "Make room" in message
    assert not (root / SELFTEST).exists() and not list(results.rglob(".*.tmp"))
    remount(results, "size=500m")
    again = snakemake(root, "--profile", "local", SELFTEST)
    assert again.returncode == 0, again.stderr


def test_where_nothing_can_be_written_nothing_is_begun(root: Path, results: Path) -> None:
    remount(results, "ro")
    refused = snakemake(root, "--profile", "local", SELFTEST)
    [message] = [line for line in refused.stderr.splitlines() if line.startswith("error:")]
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert "results/local" in message and "read-only" in message
    assert "selftest: begins" not in refused.stderr


def test_a_folder_that_is_another_users_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").write_text("a file")
    with pytest.raises(ValueError, match="local: Not a directory"):
        one_run.begin("local", pytest.fail)


def test_what_was_being_written_when_a_run_was_killed_goes_when_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(following.RUN, "")
    results = tmp_path / "results"
    parts = [results / tree / ".probes.parquet.77.tmp" for tree in ("local", "other")]
    parts += [results / f".{tree}.tar.zst.77.tmp" for tree in ("local", "local-2")]
    locks = {
        name: one_run.SNAKEMAKE_LOCKS / name for name in ("0.input.lock", "0.output.lock", "1.output.lock")
    }
    for part in (*parts, *locks.values()):
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    locks["0.input.lock"].write_text("results/local/probes.parquet\n")
    locks["0.output.lock"].write_text("results/local.tar.zst\n")  # the archive of the tree
    locks["1.output.lock"].write_text("results/local-2.tar.zst\n")
    one_run.begin("local", pytest.fail)
    assert [part.exists() for part in parts] == [False, True, False, True]
    assert [lock.exists() for lock in locks.values()] == [False, False, True]


BEFORE, MADE = "results/local/before.txt", "results/local/made.txt"
SNAKEFILE = f"""
rule before:
    output: "{BEFORE}"
    shell: "echo before > {{output}}"
rule work:
    input: "{BEFORE}"
    output: "{MADE}"
    shell: "{sys.executable} work.py {{input}} {{output}}"
"""
WORK = """
import sys
from pathlib import Path
from workflow_scripts.stamps import none_ahead
Path(sys.argv[2]).write_text("measured for an hour")
if {mended}:
    none_ahead([Path(sys.argv[1])], print)
"""


@pytest.mark.parametrize("mended", [True, False])
def test_a_clock_that_was_set_back_makes_no_job_fail_after_what_it_measured(
    tmp_path: Path, mended: bool
) -> None:
    """Where nothing were done about it, Snakemake would end the job and take its output away."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "work.py").write_text(WORK.format(mended=mended))

    def run() -> "subprocess.CompletedProcess[str]":
        command = (sys.executable, "-m", "snakemake", "--cores", "1", MADE)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert run().returncode == 0
    an_hour_ahead = time.time() + 3600
    os.utime(tmp_path / BEFORE, (an_hour_ahead, an_hour_ahead))
    (tmp_path / MADE).unlink()
    done = run()
    assert (done.returncode == 0) is mended, done.stderr
    assert ("older modification time" in done.stderr) is not mended
    if mended:
        assert "Nothing to be done" in run().stderr


def test_only_what_is_ahead_is_dated_anew_and_only_if_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tree, said = Path("results/local"), list[str]()
    old, ahead, later = (tree / name for name in ("old", "deep/ahead", "later"))
    now = time.time()
    for file, seconds in ((old, -100.0), (ahead, 3600.0), (later, 7200.0)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (now + seconds, now + seconds))
    stamps.none_ahead([old], said.append)
    assert later.stat().st_mtime > now + 7000 and not said
    stamps.none_ahead([old, ahead], said.append)
    assert old.stat().st_mtime < now - 99 and now <= ahead.stat().st_mtime == later.stat().st_mtime < now + 60
    assert len(said) == 1 and "2 files of results/local" in said[0]
