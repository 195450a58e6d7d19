"""How ranks are started, and that how they ended is told as fields: nothing is read out of the launch's log."""

import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from overlayccl_core.backends.backend import begin_starter
from overlayccl_core.backends.torch_ranks import fork_client, fork_server
from overlayccl_core.backends.torchdist.environment import environment
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.local_ranks import STATUS_FILE, LocalRanks
from overlayccl_core.launching.status import StatusFile
from overlayccl_core.locks import machine_lock
from tests.on_ranks import here, launch
from tests.timing.batches import processes_of

pytestmark = pytest.mark.ranks
WORKER = "tests.launching.fork_worker"


def started(folder: Path, *todo: str) -> tuple[int, dict[int, int], list[int]]:
    """Its exit code, rank -> how it ended, and the ranks that are still there."""
    (folder / "todo").write_text("\n".join(todo))
    plan = Launch(worker=WORKER, folder=folder, ranks=len(todo))
    process = fork_client.start(plan, LocalRanks.whole(folder, len(todo)), environment(here(len(todo)), ""))
    code = process.wait()
    pids = {int((folder / f"pid-{rank}").read_text()): rank for rank in range(len(todo))}
    codes = {pids[pid]: code for pid, code in process.exit_codes().items()}
    time.sleep(0.5)
    return code, codes, [rank for pid, rank in pids.items() if Path(f"/proc/{pid}").exists()]


def test_ranks_meet_and_end(tmp_path: Path) -> None:
    assert started(tmp_path, "sum", "sum", "sum") == (0, {}, [])
    assert [(tmp_path / f"sum-{rank}").read_text() for rank in range(3)] == ["3"] * 3


@pytest.mark.parametrize(("todo", "code"), [("exit 3", 3), ("kill 9", -9), ("raise", 1)])
def test_the_first_rank_that_fails_ends_the_others_and_its_exit_code_is_kept(
    todo: str, code: int, tmp_path: Path
) -> None:
    begun = time.monotonic()
    assert started(tmp_path, "wait", todo) == (1, {1: code}, [])
    assert time.monotonic() - begun < 40


def test_ranks_may_have_many_files_open_whatever_a_shell_allows() -> None:
    few, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, allowed))
        fork_server.many_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(fork_server.FILES, allowed), allowed)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, allowed))


@pytest.mark.parametrize("todo", [("abort", "late 2"), ("abort", "abort")])
def test_a_rank_that_aborts_after_it_was_done_ends_nobody(tmp_path: Path, todo: tuple[str, ...]) -> None:
    """Libraries do in their destructors; what it measured is there."""
    (tmp_path / "todo").write_text("\n".join(todo))
    launch(Launch(worker=WORKER, folder=tmp_path, ranks=2))


def test_ranks_that_fail_together_are_all_told(tmp_path: Path) -> None:
    assert started(tmp_path, "exit 3", "exit 4")[1] == {0: 3, 1: 4}


def test_what_starts_ranks_begins_before_the_first_launch_which_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_client, "_OF_THREAD", threading.local())
    begin_starter(here(2).changed(launcher="slurm"))  # its agents begin theirs
    with machine_lock(print):
        begin_starter(here(2))  # of another measurement
    assert not hasattr(fork_client._OF_THREAD, "server")
    begin_starter(here(2))
    begun = fork_client._OF_THREAD.server
    assert begun.process.poll() is None
    assert started(tmp_path, "sum", "sum") == (0, {}, [])
    assert fork_client._OF_THREAD.server is begun


CALLER = f"""
import sys, time
from pathlib import Path
from overlayccl_core.launching import launch
from overlayccl_core.backends.torchdist.backend import starter
from tests.on_ranks import here
try:
    launch.run(launch.Launch(worker={WORKER!r}, folder=Path(sys.argv[1]), ranks=2), starter(here(2), ""))
except KeyboardInterrupt:
    time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["broken off", "killed"])
def test_no_process_outlives_a_launch_that_is_broken_off_or_its_caller(
    tmp_path: Path, how: signal.Signals
) -> None:
    """Broken off, the launch ends them all, and its caller lives on. Killed, each dies with its parent."""
    (tmp_path / "todo").write_text("rank\nrank")
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path)])
    try:
        ranks: set[int] = set()
        _until(lambda: (tmp_path / STATUS_FILE).exists(), 60)
        while len(ranks) < 2 and caller.poll() is None:
            time.sleep(0.1)
            rows = StatusFile.open(tmp_path / STATUS_FILE, 2).snapshot()
            ranks = set(rows[:, StatusFile.PID].tolist()) - {0}
        found = processes_of(tmp_path)
        assert found > ranks and len(found) == len(ranks) + 1 == 3
        caller.send_signal(how)
        _until(lambda: not processes_of(tmp_path), 10)
        assert processes_of(tmp_path) == set()
        assert (caller.poll() is None) is (how is signal.SIGINT)
    finally:
        caller.kill()
        caller.wait()


def _until(holds: Callable[[], bool], seconds: float) -> None:
    """Return once it does, or after so long."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
