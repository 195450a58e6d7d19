"""Failures on real ranks: whose they are, and whose they are not."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.trials import Trial
from overlayccl_core.gates.on_ranks import inputs_of
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.timing.batch import ValueCheck, time_candidates
from overlayccl_core.timing.failed_jobs import JobStatus
from tests.timing.batches import batch, between, broken_job, deployment, jobs, silent

pytestmark = pytest.mark.ranks


def trial(job: Job) -> Trial:
    return Trial(job=job, inputs=inputs_of(job.program.problem, 0))


ANY_VALUES = ValueCheck(trial=trial, wrong=lambda _trial, _seen: "")
IN_CALL = "global calls; calls = globals().get('calls', 0) + 1; calls == {} and "


def kill_who_writes(mark: Path) -> threading.Thread:
    """Wait for a process to write its number, then end it as the system does when memory is short."""

    def wait_and_kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not (mark.exists() and mark.read_text()):
            time.sleep(0.05)
        os.kill(int(mark.read_text()), signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


@pytest.mark.parametrize("call", [1, 3], ids=["tried", "timed"])
def test_a_candidate_whose_rank_is_killed_from_outside_is_timed_in_the_end(tmp_path: Path, call: int) -> None:
    mark = tmp_path / "mark"
    waits_once = IN_CALL.format(call) + (
        f"not (mark := __import__('pathlib').Path({str(mark)!r})).exists() and "
        "(mark.write_text(str(__import__('os').getpid())), __import__('time').sleep(30))"
    )
    victim, said = broken_job(waits_once), list[str]()
    thread = kill_who_writes(mark)
    timed, failed = time_candidates(batch(tmp_path, [*jobs(), victim]), ANY_VALUES, said.append)
    thread.join()
    assert not failed and {one.key for one in timed} == {job.key for job in jobs()} | {victim.key}
    assert {one.rounds for one in timed} == {4}
    assert any("died (SIGKILL)" in line and "once more, alone" in line for line in said)
    assert any(f"{victim.key} runs when it is alone" in line for line in said)


def test_a_candidate_that_always_crashes_has_its_verdict_and_its_evidence(tmp_path: Path) -> None:
    culprit = broken_job(IN_CALL.format(2) + "__import__('os')._exit(3)")
    given = batch(tmp_path / ".partial", [*jobs(), culprit])
    timed, failed = time_candidates(given, ANY_VALUES, silent)
    assert {one.key for one in timed} == {job.key for job in jobs()} and set(failed) == {culprit.key}
    verdict = failed[culprit.key]
    assert verdict.status is JobStatus.CRASHED and "1 of 2 died (exit code 3" in verdict.message
    log = tmp_path / "logs" / "bench.failure-1" / "launch.log"
    assert verdict.message.endswith(f"; see {log}") and "of a rank: exit code 3" in log.read_text()


def test_a_rank_that_aborts_at_its_exit_keeps_its_samples(tmp_path: Path) -> None:
    aborts = broken_job("__import__('tests.launching.fork_worker', fromlist=['main']).abort_when_done()")
    timed, failed = time_candidates(batch(tmp_path / ".partial", [*jobs(), aborts]), ANY_VALUES, silent)
    assert not failed and {one.key for one in timed} == {job.key for job in jobs()} | {aborts.key}
    assert {one.rounds for one in timed} == {4}
    assert not (tmp_path / "logs").exists()


def test_nobody_is_to_blame_where_what_started_the_ranks_is_ended(tmp_path: Path) -> None:
    ended = f"__import__('os').kill(__import__('os').getppid(), {int(signal.SIGTERM)})"
    ends_its_parent = f"({ended}, __import__('time').sleep(30))"
    orphan = broken_job(IN_CALL.format(2) + ends_its_parent)
    with pytest.raises(LaunchError, match="started the 2 ranks") as error:
        time_candidates(batch(tmp_path / ".partial", [*jobs(), orphan]), ANY_VALUES, silent)
    assert error.value.kind is Failure.LAUNCHER and error.value.job is None
    assert error.value.evidence == tmp_path / "logs" / "bench.failure-0" / "launch.log"


OVERWRITING = """answer = yield event
if answer is not None:
    answer += 1"""


def test_a_module_that_overwrites_its_input_has_wrong_values_and_ends_no_launch(tmp_path: Path) -> None:
    [good] = jobs(names=("reduce",))
    bad = Job(key="bad", program=good.program, source=between(good.source, OVERWRITING))
    for may_refuse in (False, True):
        folder = tmp_path / str(may_refuse)
        folder.mkdir()
        seen = backend.run_once(
            deployment(), folder, [trial(bad), trial(good)], may_refuse=may_refuse, step_timeout_s=20.0
        )
        assert [one.error for one in seen] == ["", ""]
        assert seen[0].overwritten.startswith("rank 0: input x ") and not seen[1].overwritten
        assert seen[1].outputs["y",].shape == (2, 64)
