"""One run on a results tree: a second is refused, a killed one leaves neither jobs nor locks that stop the next."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workflow.repository import ROOT
from workflow_scripts import following, one_run

SNAKEFILE = """
from pathlib import Path
import sys
from snakemake.logging import logger
from workflow_scripts import one_run
try:
    one_run.begin(config.get("tree", "local"), logger.warning)
except ValueError as error:
    sys.exit(f"error: {error}")
rule work:
    output: f"results/{config.get('tree', 'local')}/{{n}}.txt"
    shell: "python work.py {output}"
"""
WORK = """
import sys, time
from pathlib import Path
from workflow_scripts.following import follow
said = Path("said.txt").open("a")
try:
    follow(lambda text: print(text, file=said, flush=True))
    Path("working").touch()
    while not Path("enough").exists():
        time.sleep(0.05)
except KeyboardInterrupt:
    print("kept what was measured", file=said, flush=True)
    time.sleep(4.0)  # longer than the next run takes to begin, on a busy machine too
    Path("kept").touch()
    sys.exit(130)
Path(sys.argv[1]).write_text("made")
"""
QUICK_S = 30.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "work.py").write_text(WORK)
    return tmp_path


@pytest.fixture
def start(root: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start a Snakemake; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def of(*arguments: str) -> "subprocess.Popen[str]":
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-incomplete", *arguments],
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield of
    (root / "enough").touch()
    for one in started:
        one.kill()
        one.communicate()


def until(there: Callable[[], object]) -> None:
    end = time.monotonic() + QUICK_S
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


def result(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said = process.communicate(timeout=QUICK_S)[1]
    return process.returncode, said


def test_a_second_run_is_refused_and_told_who_has_the_tree(
    root: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    first = start("results/local/1.txt")
    until((root / "working").exists)
    code, said = result(start("results/local/2.txt"))
    assert code == 1
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "results/local " in line and f"(process {first.pid} on {os.uname().nodename}" in line
    (root / "enough").touch()
    assert result(first)[0] == 0
    assert result(start("results/local/2.txt"))[0] == 0


def test_what_a_killed_run_left_ends_by_itself_and_the_next_goes_on(
    root: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    first = start("results/local/1.txt")
    until((root / "working").exists)
    first.kill()  # alone: its job is no child of anybody now
    first.wait()
    assert list((root / ".snakemake/locks").iterdir())  # as an expert knows it
    (root / "working").unlink()
    again = start("results/local/1.txt")
    until((root / "working").exists)
    assert (root / "kept").exists()  # before anything of the next run began
    gone, kept = (root / "said.txt").read_text().splitlines()
    assert "is gone: ending" in gone and kept == "kept what was measured"
    (root / "enough").touch()
    code, said = result(again)
    assert code == 0, said
    assert "was killed: waiting for " in said
    assert (root / "results/local/1.txt").read_text() == "made"


def test_a_run_on_another_tree_is_not_refused_and_its_locks_stay(
    root: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    other = start("results/other/1.txt", "--config", "tree=other")
    until((root / "working").exists)
    start("results/local/1.txt")
    until(lambda: len(list((root / ".snakemake/locks").glob("*.output.lock"))) == 2)
    locked = "".join(lock.read_text() for lock in (root / ".snakemake/locks").glob("*.output.lock"))
    assert "results/other/1.txt" in locked and "results/local/1.txt" in locked
    (root / "enough").touch()
    assert result(other)[0] == 0


def test_a_job_whose_run_is_another_by_now_ends_even_where_locks_are_of_one_host(root: Path) -> None:
    run = root / "local.run"
    run.write_text(json.dumps({"run": "mine"}))  # which nobody holds: so locks tell nothing here
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OVERLAYCCL_RUN": f"{run}:mine"}
    job = subprocess.Popen([sys.executable, "work.py", "made.txt"], cwd=root, env=environment)
    until((root / "working").exists)
    time.sleep(2.5)
    assert job.poll() is None
    run.write_text(json.dumps({"run": "of another"}))
    assert job.wait(QUICK_S) == 130


def test_a_job_to_which_ctrl_c_means_nothing_is_ended_as_any_other(root: Path) -> None:
    """As of a run that a script began with `&`: a shell has those ignore it."""
    run = root / "local.run"
    run.write_text(json.dumps({"run": "mine"}))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OVERLAYCCL_RUN": f"{run}:mine"}
    deaf = "import signal, runpy; signal.signal(signal.SIGINT, signal.SIG_IGN); runpy.run_path('work.py')"
    job = subprocess.Popen([sys.executable, "-c", deaf, "made.txt"], cwd=root, env=environment)
    until((root / "working").exists)
    run.write_text(json.dumps({"run": "of another"}))
    assert job.wait(QUICK_S) == 130 and (root / "kept").exists()


def test_a_job_whose_run_is_gone_when_it_begins_does_nothing(root: Path) -> None:
    """One that waited in a cluster's queue."""
    run = root / "local.run"
    run.write_text(json.dumps({"run": "of another"}))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OVERLAYCCL_RUN": f"{run}:mine"}
    job = subprocess.run([sys.executable, "work.py", "made.txt"], cwd=root, env=environment, timeout=QUICK_S)
    assert job.returncode == 130 and not (root / "working").exists()


def test_a_command_of_a_person_follows_nobody(root: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OVERLAYCCL_RUN"}
    (root / "enough").touch()
    done = subprocess.run(
        [sys.executable, "work.py", "made.txt"], cwd=root, env={**environment, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0


def test_a_job_whose_run_died_while_it_started_ends_too(
    root: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    first = start("results/local/1.txt")
    until((root / "working").exists)
    said = json.loads((root / ".snakemake/runs/local.run").read_text())
    first.kill()
    first.wait()
    (root / "working").unlink()
    (root / "said.txt").unlink()
    environment = {**os.environ, following.RUN: f"{root / '.snakemake/runs/local.run'}:{said['run']}"}
    late = subprocess.Popen(
        [sys.executable, "work.py", "late.txt"], cwd=root, env={**environment, "PYTHONPATH": str(ROOT)}
    )
    assert late.wait(QUICK_S) == 130 and not (root / "late.txt").exists()


def test_a_run_that_is_interrupted_leaves_nothing_behind(
    root: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    first = start("results/local/1.txt")
    until((root / "working").exists)
    os.killpg(first.pid, signal.SIGINT)
    assert result(first)[0] != 0
    (root / "enough").touch()
    assert result(start("results/local/1.txt"))[0] == 0


def test_where_a_folder_has_no_locks_nobody_is_refused_and_snakemakes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fcntl, "flock", none)  # as locks.py asks for it
    monkeypatch.setenv(following.RUN, "")
    one_run.SNAKEMAKE_LOCKS.mkdir(parents=True)
    lock = one_run.SNAKEMAKE_LOCKS / "0.output.lock"
    lock.write_text("results/local/1.txt\n")
    one_run.begin("local", pytest.fail)
    assert lock.exists()
    one_run.begin("local", pytest.fail)
