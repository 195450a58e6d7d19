"""Time a batch of Programs on a deployment's ranks: one launch, rounds in random order, raw samples kept.

Why so (the noise of repeated batches was measured): start-up is dear, so a launch times a whole batch; a
call alone after a pause costs a fraction of one in a busy stream, and a training step is a busy stream, so a
sample is several back-to-back calls; what disturbs a machine comes in bursts, so every round visits every
Program once, in an order of its own. Estimates are the readers' business (`overlayccl_core.measuring.statistics`).
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from overlayccl_core.backends.backend import Backend, backend_of
from overlayccl_core.backends.failed import Failed, FailedJobs, blamed
from overlayccl_core.backends.launch import LaunchError
from overlayccl_core.backends.machine_lock import machine_lock
from overlayccl_core.backends.measured import Job, TimedProgram, TimingSettings
from overlayccl_core.backends.partial import Evidence, at_work, key, launch_quietly, least_disturbed
from overlayccl_core.backends.plan import Calibration, LaunchPlan, planned_job
from overlayccl_core.backends.reporting import Progress, Reporter
from overlayccl_core.backends.timed_launches import LaunchStore, missing
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.measuring.job_status import JobStatus

TRIAL_TIMEOUT_S = 30.0  # of one Program that runs once


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCheck:
    """What every job must pass before it is timed.

    trial: the job with given inputs. wrong: what is wrong with what came out, in a clause; empty: nothing.
    needed: jobs without which the others mean nothing: where one fails, the batch does.
    """

    trial: Callable[[Job], Trial]
    wrong: Callable[[Trial, Observed], str]
    needed: frozenset[str] = frozenset()


def time_programs(
    jobs: Sequence[Job],
    deployment: Deployment,
    settings: TimingSettings,
    partial_dir: Path,
    rule: str,
    code: str,
    progress: Progress,
    *,
    logs: Path | None = None,
) -> list[TimedProgram]:
    """Samples of every job, one entry per (launch, Program).

    Launches are kept in partial_dir/<rule>-<key>/ as they come; the key is a digest of Programs, sources,
    settings, fingerprint and `code` (the digest of the rule's code). What is there under the same key is not
    timed again, until `partial.forget` is told that the rule's table is written. One batch at a time runs on
    a machine: others wait. LaunchError (a ValueError) names rank, Program and the file of its traceback if ranks
    die or hang; these files are in `logs` (None: the folder of that name beside partial_dir).
    """
    batch = _batch(jobs, deployment, settings, partial_dir, rule, code, progress, logs)
    with machine_lock(progress):
        return batch.finish()


def time_candidates(
    jobs: Sequence[Job],
    deployment: Deployment,
    settings: TimingSettings,
    partial_dir: Path,
    rule: str,
    code: str,
    progress: Progress,
    *,
    check: ValueCheck,
) -> tuple[list[TimedProgram], dict[str, Failed]]:
    """The same for jobs of which some may be broken: (samples, key -> how it failed), every job in one of them.

    Each runs once and its values are looked at, before any is timed. One that gives wrong ones, crashes its
    ranks, hangs or raises is left out, and the others are tried or timed in a new launch. LaunchError where ranks
    fail at no job, or at one that is needed; ValueError where the values of such a job are wrong.
    """
    batch = _batch(jobs, deployment, settings, partial_dir, rule, code, progress, None)
    with machine_lock(progress):
        return batch.finish_without_failed(check)


def batch_key(jobs: Sequence[Job], settings: TimingSettings, fingerprint: str, code: str) -> str:
    """Digest of everything that decides what samples mean."""
    programs = [(job.key, job.program.digest, job.source, job.rounds) for job in jobs]
    return key(programs, settings.to_json(), fingerprint, code)


def _batch(
    jobs: Sequence[Job],
    deployment: Deployment,
    settings: TimingSettings,
    partial_dir: Path,
    rule: str,
    code: str,
    progress: Progress,
    logs: Path | None,
) -> "_Batch":
    _check(jobs, deployment)
    backend = backend_of(deployment)
    fingerprint = backend.fingerprint(deployment)
    store = LaunchStore(
        Path(partial_dir) / f"{rule}-{batch_key(jobs, settings, fingerprint, code)}",
        fingerprint=fingerprint,
        oversubscribed=deployment.ranks > len(os.sched_getaffinity(0)),
    )
    evidence = Evidence(logs=logs, name=rule) if logs else Evidence.beside(partial_dir, rule)
    if not any(store.folder.iterdir()):
        evidence.clear()
    return _Batch(jobs, deployment, settings, backend, store, progress, evidence)


class _Batch:
    """One batch on its way: launches until nothing is missing."""

    def __init__(
        self,
        jobs: Sequence[Job],
        deployment: Deployment,
        settings: TimingSettings,
        backend: Backend,
        store: LaunchStore,
        progress: Progress,
        evidence: Evidence,
    ) -> None:
        self.jobs = list(jobs)
        self.deployment = deployment
        self.settings = settings
        self.backend = backend
        self.store = store
        self.progress = progress
        self.evidence = evidence

    def finish(self) -> list[TimedProgram]:
        """Launch what is missing; a launch in which others took too much CPU is repeated once."""
        self.store.recover()
        kept = self.store.launches()
        lacking = bool(missing(self.jobs, kept))
        if not lacking:
            self.progress(f"using the samples of a run that was cut off after them: {len(kept)} launches")
        launch_quietly(
            self._attempts,
            self._launch_missing,
            lacking=lacking,
            repeat=self.settings.repeat_disturbed,
            progress=self.progress,
        )
        found = _chosen(self.store.launches())
        _say_floor(found, self.settings, self.progress)
        return found

    def finish_without_failed(self, check: ValueCheck) -> tuple[list[TimedProgram], dict[str, Failed]]:
        """The same with those jobs only that do not fail."""
        everything = self.jobs
        failed = FailedJobs(self.store.folder)
        while True:
            self.jobs = [job for job in everything if job.key not in failed]
            if not self.jobs:
                return [], dict(failed)
            try:
                if not failed.tried:
                    self._try(check, failed)
                    continue
                return self.finish(), dict(failed)
            except LaunchError as error:
                found = blamed(error)
                if found is None or found[0] in check.needed:
                    raise
                self.store.discard()
                self._leave_out(failed, *found)

    def _try(self, check: ValueCheck, failed: FailedJobs) -> None:
        """Run every job once and look at what it gives."""
        self.progress(f"running {len(self.jobs)} Programs once: are their values right?")
        trials = [check.trial(job) for job in self.jobs]
        with at_work(self.store.folder / "trial", self.evidence) as work:
            seen = self.backend.run_once(self.deployment, work, trials, step_timeout_s=TRIAL_TIMEOUT_S)
            for trial, observed in zip(trials, seen, strict=True):
                if observed.error:
                    found = Failed(status=JobStatus.RAISED, message=observed.error)
                elif wrong := check.wrong(trial, observed):
                    found = Failed(status=JobStatus.WRONG, message=wrong)
                else:
                    continue
                if trial.job.key in check.needed:
                    raise ValueError(
                        f"{trial.job.key} {found.status}: {found.message}: without it nothing can be compared; "
                        "look at the module that the backend emits, or try another version of the library"
                    )
                self._leave_out(failed, trial.job.key, found)
        failed.all_tried()

    def _leave_out(self, failed: FailedJobs, job: str, found: Failed) -> None:
        self.progress(f"{job} {found.status}, going on without it: {found.message}")
        failed.add(job, found)

    def _attempts(self) -> list["_Attempt"]:
        return [_Attempt(launch) for launch in self.store.launches()]

    def _launch_missing(self) -> None:
        """One launch of what no launch has, or of all once more."""
        kept = self.store.launches()
        left = missing(self.jobs, kept)
        if kept and left:
            self.progress(f"continuing a batch that was cut off: {len(left)} Programs lack rounds")
        jobs = [replace(job, rounds=left[job.key]) for job in self.jobs if job.key in left]
        self.launch(jobs if left else self.jobs)

    def launch(self, jobs: Sequence[Job]) -> None:
        """One launch, kept whether it ends well or not."""
        launch = self.store.next_launch()
        plan = LaunchPlan(
            launch=launch,
            ranks=self.deployment.ranks,
            started_ns=time.monotonic_ns(),
            settings=self.settings,
            jobs=tuple(planned_job(index, job) for index, job in enumerate(jobs)),
        )
        share: float | None = None
        with at_work(self.store.work_folder(launch), self.evidence) as work:
            try:
                plan.write(work, jobs)
                watch = _reporter(plan, work, self.progress).watch
                share = self.backend.time_launch(self.deployment, work, plan, watch)
            finally:
                complete = share is not None
                disturbed = share is not None and share > self.settings.foreign_cpu_limit
                self.store.harvest(work, foreign_cpu_share=share, complete=complete, disturbed=disturbed)


def _reporter(plan: LaunchPlan, work: Path, progress: Progress) -> Reporter:
    def rounds() -> int | None:
        calibration = Calibration.read(work)
        return plan.settings.cold_rounds + calibration.rounds if calibration else None

    head = f"launch {plan.launch + 1}, {len(plan.jobs)} Programs on {plan.ranks} ranks"
    return Reporter(head, rounds, progress)


class _Attempt:
    """A timed launch as `launch_quietly` sees it: what holds for one of its Programs holds for all."""

    def __init__(self, programs: Sequence[TimedProgram]) -> None:
        self.programs = programs
        self.foreign_cpu_share = programs[0].foreign_cpu_share
        self.disturbed = programs[0].disturbed
        self.complete = programs[0].complete


def _chosen(launches: Sequence[Sequence[TimedProgram]]) -> list[TimedProgram]:
    """All that is kept; of launches that were repeated because others disturbed them, the least disturbed."""
    attempts = [_Attempt(launch) for launch in launches]
    if sum(one.complete for one in attempts) <= 1:
        return [timed for launch in launches for timed in launch]
    return list(least_disturbed(attempts).programs)


def _say_floor(kept: Sequence[TimedProgram], settings: TimingSettings, progress: Progress) -> None:
    planned = max(timed.planned_rounds for timed in kept)
    if planned < settings.minimum_rounds:
        progress(
            f"only {planned} rounds fit into {settings.seconds:.0f} s, below the floor of "
            f"{settings.minimum_rounds}: give more seconds before you rely on these figures"
        )


def _check(jobs: Sequence[Job], deployment: Deployment) -> None:
    keys = [job.key for job in jobs]
    if not jobs or len(set(keys)) != len(keys):
        raise ValueError(
            f"a batch of timings needs Programs with different keys (got {len(keys)}: {keys[:4]})"
        )
    for job in jobs:
        case = job.program.problem.case
        if case.ranks * case.groups != deployment.ranks:
            raise ValueError(
                f"{job.key}: {case.groups} groups of {case.ranks} ranks do not make the {deployment.ranks} "
                f"ranks of deployment {deployment.name}: choose ranks and groups whose product is that"
            )
