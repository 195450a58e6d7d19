"""When a job is judged, with launches that are functions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.timing.failed_jobs import FailedJobs, without_failed
from tests.timing.batches import silent


def crashed(job: str) -> LaunchError:
    return LaunchError("rank 1 of 2 died", kind=Failure.CRASHED, ranks=(1,), job=job)


@pytest.mark.parametrize(("disturbances", "left_out"), [(1, []), (2, []), (3, ["a"])])
def test_a_job_that_runs_alone_is_judged_only_where_launches_with_others_fail_at_it_again_and_again(
    disturbances: int, left_out: list[str], tmp_path: Path
) -> None:
    left, alone, failed = [disturbances], list[str](), FailedJobs(tmp_path, silent)

    def together() -> str:
        if left[0] and "a" not in failed:
            left[0] -= 1
            raise crashed("a")
        return "timed"

    assert without_failed(together, alone.append, failed) == "timed"
    assert list(failed) == left_out and alone == ["a"] * min(disturbances, 2)


def test_a_job_that_fails_alone_is_judged_at_once_also_after_a_disturbance(tmp_path: Path) -> None:
    failed, ended = FailedJobs(tmp_path, silent), iter([None, crashed("a")])
    again = iter([crashed("a"), crashed("a"), None])

    def step(errors: Iterator[LaunchError | None]) -> None:
        if error := next(errors):
            raise error

    without_failed(lambda: step(again), lambda _name: step(ended), failed)
    assert list(failed) == ["a"] and list(FailedJobs(tmp_path, silent)) == ["a"]
