"""How ranks ended is told by what started them as fields; nothing is read out of the launch's log."""

from pathlib import Path
from typing import Any

import pytest
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from overlayccl_core.backends.launch import LOG_FILE, Launch
from overlayccl_core.backends.torchdist import launch, start


def exit_codes(folder: Path) -> Any:
    return launch._exit_codes(Launch(worker="any", folder=folder, ranks=2))


def test_the_exit_codes_of_failed_ranks_are_kept_and_the_failure_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = {1: (7001, -9), 0: (7000, 3)}
    failures = {
        rank: ProcessFailure(local_rank=rank, pid=pid, exitcode=code, error_file="none")
        for rank, (pid, code) in ended.items()
    }
    given: list[list[str]] = []

    def fails(arguments: list[str]) -> None:
        given.append(arguments)
        raise ChildFailedError("worker", failures)

    monkeypatch.setattr(run, "main", fails)
    assert exit_codes(tmp_path) == {}
    with pytest.raises(ChildFailedError):
        start.main(tmp_path / launch.EXIT_CODES_FILE, ["--standalone"])
    assert given == [["--standalone"]]
    assert exit_codes(tmp_path) == {7000: 3, 7001: -9}


def test_what_a_rank_prints_is_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_text("  exitcode  : -9 (pid: 7001)\n")
    assert exit_codes(tmp_path) == {}
