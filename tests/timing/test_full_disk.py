"""Ranks on a disk that takes no more: nobody's Program is to blame, and what was measured is found again."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.gates.on_ranks import inputs_of
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.tables.plain import of_data, plain
from overlayccl_core.timing import launch_store
from overlayccl_core.timing.batch import time_candidates, time_programs
from overlayccl_core.timing.failed_jobs import FailedJobs
from tests.timing.batches import batch, broken_job, deployment, jobs, silent
from tests.timing.test_failed import ANY_VALUES, IN_CALL

WRITES_TO_A_FULL_DISK = "open('/dev/full', 'w').write('x' * 100000)"


def test_no_job_is_blamed_for_a_disk(tmp_path: Path) -> None:
    error = LaunchError("rank 1 could not write a file", kind=Failure.DISK, ranks=(1,), job="reduce")
    assert "Make room" in str(error) and "doctor" not in str(error)
    with pytest.raises(LaunchError):
        FailedJobs(tmp_path, silent).blame(error)
    again = of_data(LaunchError, plain(error))
    assert again.kind is Failure.DISK and str(again) == str(error)


@pytest.mark.ranks
@pytest.mark.parametrize("call", [1, 2], ids=["tried", "timed"])
def test_a_rank_that_cannot_write_says_so_and_no_program_is_left_out(tmp_path: Path, call: int) -> None:
    victim, said = broken_job(IN_CALL.format(call) + WRITES_TO_A_FULL_DISK), list[str]()
    with pytest.raises(LaunchError, match=r"rank 1 .*disk is full"):
        time_candidates(batch(tmp_path / ".partial", [*jobs(), victim]), ANY_VALUES, said.append)
    assert not [line for line in said if victim.key in line]
    assert not list(tmp_path.rglob("failed.json")) or not FailedJobs(
        next(tmp_path.rglob("failed.json")).parent, silent
    )


BEHIND_ANOTHER = (
    f"""exec("try:\\n {WRITES_TO_A_FULL_DISK}\\nexcept OSError as e:\\n raise RuntimeError('zip') from e")"""
)


def run_once(folder: Path, trial: Trial) -> list[Observed]:
    here = deployment()
    return list(backend_of(here).run_once(here, folder, [trial], step_timeout_s=30, may_refuse=True))


@pytest.mark.ranks
def test_a_disk_is_no_refusal_of_a_program_whatever_a_library_makes_of_it(tmp_path: Path) -> None:
    wraps = broken_job(BEHIND_ANOTHER)
    with pytest.raises(LaunchError, match="could not write") as error:
        run_once(tmp_path, Trial(job=wraps, inputs=inputs_of(wraps.program.problem, 0)))
    assert error.value.kind is Failure.DISK


def test_what_is_prepared_for_ranks_has_its_room_before_they_start(small_disk: Path) -> None:
    [job] = jobs(2, ("reduce",))
    large = {port: np.zeros((2, 200_000)) for port in job.program.problem.inputs}
    with pytest.raises(OSError, match="No space"):
        run_once(small_disk, Trial(job=job, inputs=large))


@pytest.mark.ranks
def test_a_launch_whose_table_finds_no_room_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = launch_store.write_text

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(launch_store, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        time_programs(batch(tmp_path / ".partial"), silent)
    monkeypatch.setattr(launch_store, "write_text", write)
    said = list[str]()
    timed = time_programs(batch(tmp_path / ".partial"), said.append)
    assert {one.rounds for one in timed} == {4} and len(timed) == len(jobs())
    assert any("run that was cut off" in line for line in said), said
