"""How ranks are started, and that how they ended is told as fields: nothing is read out of the launch's log."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.backends.launch import LOG_FILE, Launch
from overlayccl_core.backends.torchdist import launch

pytestmark = pytest.mark.ranks
WORKER = "tests.backends.starting_worker"


def started(folder: Path, *todo: str) -> tuple[int, dict[int, int], list[int]]:
    """Its exit code, rank -> how it ended, and the ranks that are still there."""
    (folder / "todo").write_text("\n".join(todo))
    plan = Launch(worker=WORKER, folder=folder, ranks=len(todo))
    code = launch.start(plan).wait()
    pids = {int((folder / f"pid-{rank}").read_text()): rank for rank in range(len(todo))}
    codes = {pids[pid]: code for pid, code in exit_codes(folder).items()}
    time.sleep(0.5)
    return code, codes, [rank for pid, rank in pids.items() if Path(f"/proc/{pid}").exists()]


def exit_codes(folder: Path) -> Any:
    return launch._exit_codes(Launch(worker=WORKER, folder=folder, ranks=2))


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


def test_ranks_that_fail_together_are_all_told(tmp_path: Path) -> None:
    assert started(tmp_path, "exit 3", "exit 4")[1] == {0: 3, 1: 4}


def test_what_a_rank_prints_is_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_text(f"  exitcode  : -9 (pid: {os.getpid()})\n")
    assert exit_codes(tmp_path) == {}
