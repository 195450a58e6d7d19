"""Time a batch of Programs on a deployment's ranks: one launch, rounds in random order, raw samples kept.

The noise of repeated batches was measured, and led to this design. Start-up is expensive, so a launch times a whole
batch. An isolated call takes a fraction of one in a busy stream, and a training step is a busy stream; so a sample
is several back-to-back calls. Disturbances of a machine come in bursts, so every round visits every Program once,
in an order of its own. Readers make the estimates (`overlayccl_core.measuring.statistics`).
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from overlayccl_core.backends.backend import backend_of, oversubscribed
from overlayccl_core.backends.measured import Job, TimedProgram, TimingSettings
from overlayccl_core.backends.plan import Calibration, LaunchPlan
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.node_report import LaunchClock, NodeReport, doubts
from overlayccl_core.locks import machine_lock
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.timing.failed_jobs import Failed, FailedJobs, without_failed
from overlayccl_core.timing.launch_store import KeptLaunches
from overlayccl_core.timing.partial import Evidence, key
from overlayccl_core.timing.reporting import Progress, Reporter
from overlayccl_core.timing.samples import missing, timed_programs

TRIAL_TIMEOUT_S = 30.0  # for a single run of one Program


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingBatch:
    """Jobs, their ranks, and the folder that keeps their launches as they come.

    Attributes:
        batch_name: Beginning of that folder's name, `<partial_dir>/bench-tp_mlp-<key>`; `forget` takes it.
        code: Digest of the rule's code.
        logs: Folder for the output of failed ranks (None: the folder `logs` beside partial_dir).
    """

    jobs: Sequence[Job]
    deployment: Deployment
    settings: TimingSettings
    partial_dir: Path
    batch_name: str
    code: str = ""
    logs: Path | None = None

    def __post_init__(self) -> None:
        keys = [job.key for job in self.jobs]
        if not keys or len(set(keys)) != len(keys):
            raise ValueError(
                f"a batch of timings needs Programs with different keys (got {len(keys)}: {keys[:4]})"
            )
        ranks = self.deployment.ranks
        for job in self.jobs:
            case = job.program.problem.case
            if case.ranks * case.groups != ranks:
                raise ValueError(
                    f"{job.key}: {case.groups} groups of {case.ranks} ranks do not make the {ranks} "
                    f"ranks of deployment {self.deployment.name}: choose ranks and groups whose product is that"
                )

    def folder(self, fingerprint: str) -> Path:
        """Return the folder, named after a digest of everything that decides the meaning of samples."""
        programs = [
            (
                job.key,
                job.program.digest,
                job.source,
                job.deployed,
                job.way,
                job.beside,
                job.rounds,
                job.races,
            )
            for job in self.jobs
        ]
        digest = key(programs, asdict(self.settings), fingerprint, self.code)
        return Path(self.partial_dir) / f"{self.batch_name}-{digest}"

    def evidence(self) -> Evidence:
        if self.logs:
            return Evidence(logs=self.logs, name=self.batch_name)
        return Evidence.beside(self.partial_dir, self.batch_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCheck:
    """The check of every job's values before it is timed.

    Attributes:
        trial: Makes a trial of the job, with inputs.
        wrong: Returns the error in the values, in a clause; empty if they are right. TooLarge if it cannot tell.
        needed: Jobs indispensable for the meaning of the others: if one fails, the batch fails.
    """

    trial: Callable[[Job], Trial]
    wrong: Callable[[Trial, Observed], str]
    needed: frozenset[str] = frozenset()


def time_programs(batch: TimingBatch, progress: Progress) -> list[TimedProgram]:
    """Return samples of every job, one entry per (launch, Program).

    Samples under the batch's key are reused until `partial.forget` learns that the rule's table is written. Only
    one batch at a time runs on a machine: others wait.

    Raises:
        LaunchError: Ranks die or hang; a ValueError that names rank, Program and traceback file.
    """
    timer = _Timer(batch, progress)
    with machine_lock(progress):
        return timer.finish()


def time_candidates(
    batch: TimingBatch, check: ValueCheck, progress: Progress
) -> tuple[list[TimedProgram], FailedJobs]:
    """Time jobs, some of which may be broken: return (samples, failures), with every job in one of them.

    Each job runs once and its values are checked before any is timed. Jobs with wrong values are left out. So are
    jobs that crash their ranks, hang or raise, also when alone; a new launch tries or times the others.

    Raises:
        LaunchError: Ranks fail outside any job, or at a needed job.
        ValueError: The values of a needed job are wrong.
    """
    timer = _Timer(batch, progress)
    with machine_lock(progress):
        return timer.finish_without_failed(check)


def check_values(batch: TimingBatch, check: ValueCheck, progress: Progress) -> FailedJobs:
    """Run each job once without timing and return the failures. Raises as `time_candidates`."""
    timer = _Timer(batch, progress)
    with machine_lock(progress):
        return timer.tried(check)


class _Timer:
    """One batch in progress: launches until nothing is missing."""

    def __init__(self, batch: TimingBatch, progress: Progress) -> None:
        self.jobs = list(batch.jobs)
        self.deployment = batch.deployment
        self.settings = batch.settings
        self.progress = progress
        self.backend = backend_of(batch.deployment)
        self.fingerprint = self.backend.fingerprint(batch.deployment)
        self.kept = KeptLaunches(batch.folder(self.fingerprint), batch.evidence(), progress)

    def finish(self) -> list[TimedProgram]:
        """Launch missing samples; repeat a launch once if others took too much CPU."""
        self._recover()
        kept = self.kept.attempts()
        if rounds := missing(self.jobs, kept):
            if kept:
                self.progress(f"continuing a batch that was cut off: {len(rounds)} Programs lack rounds")
            self.launch([replace(job, rounds=rounds[job.key]) for job in self.jobs if job.key in rounds])
        else:
            self.progress(f"using the samples of a run that was cut off after them: {len(kept)} launches")
        if self.settings.repeat_disturbed and self.kept.disturbed_once():
            self.launch(self.jobs)
        left = {job.key for job in self.jobs}  # a complete launch may hold a job that failed since
        timed = [one for one in self._chosen() if one.key in left]
        _say_floor(timed, self.settings, self.progress)
        clocks = [
            LaunchClock(one.nodes, one.clock_off_by_us, min(one.samples_us) * one.repeats) for one in timed
        ]
        for said in doubts(clocks):
            self.progress(said)
        return timed

    def tried(self, check: ValueCheck) -> FailedJobs:
        """Return the jobs that fail in a single run."""
        jobs = {job.key: job for job in self.jobs}
        failed = FailedJobs(self.kept.folder, self.progress, needed=check.needed)

        def together() -> None:
            self._try([job for name, job in jobs.items() if name not in failed], check, failed)

        if not failed.tried:
            without_failed(together, lambda name: self._try([jobs[name]], check, failed), failed)
            failed.all_tried()
        return failed

    def finish_without_failed(self, check: ValueCheck) -> tuple[list[TimedProgram], FailedJobs]:
        """Do `finish` with the jobs that fail neither in the trial nor in timing."""
        jobs, failed = {job.key: job for job in self.jobs}, self.tried(check)

        def together() -> list[TimedProgram]:
            self.jobs = [job for name, job in jobs.items() if name not in failed]
            return self.finish() if self.jobs else []

        def alone(name: str) -> None:
            with self.kept.at_work("alone") as work:
                self._time(0, [jobs[name]], work)

        return without_failed(together, alone, failed, before_again=self.kept.discard_cut_off), failed

    def _try(self, jobs: Sequence[Job], check: ValueCheck, failed: FailedJobs) -> None:
        self.progress(f"running {len(jobs)} Programs once: are their values right?")
        trials = [check.trial(job) for job in jobs]
        with self.kept.at_work("trial") as work:
            seen = self.backend.run_once(self.deployment, work, trials, step_timeout_s=TRIAL_TIMEOUT_S)
            for trial, observed in zip(trials, seen, strict=True):
                name = trial.job.key
                try:
                    what = _wrong(check, trial, observed)
                except TooLarge as error:
                    failed.not_checked(name, f"its values on the ranks were not looked at: {error}")
                    continue
                if what and name in check.needed:
                    raise ValueError(
                        f"{name} {what.status}: {what.message}: without it nothing can be compared; "
                        "look at the module that the backend emits, or try another version of the library"
                    )
                if what:
                    failed.leave_out(name, what)

    def _chosen(self) -> list[TimedProgram]:
        """Return all kept samples; of several complete attempts only those of the least disturbed."""
        attempts = self.kept.attempts()
        if sum(one.complete for one in attempts) > 1:
            attempts = [self.kept.least_disturbed()]
        return [timed for one in attempts for timed in one.timed]

    def _recover(self) -> None:
        """Keep the finished rounds of a dead run's launches, and delete their folders."""
        for work, kept in self.kept.left_at_work():
            if not kept:  # a kept launch has its CPU share
                self._keep(work, None)
            shutil.rmtree(work)

    def _keep(self, work: Path, share: float | None) -> None:
        """Keep the results of a launch folder. share: of the CPU, taken by others; None: the launch was cut off."""
        timed = timed_programs(
            work,
            fingerprint=self.fingerprint,
            oversubscribed=oversubscribed(self.deployment, NodeReport.read(work)),
            foreign_cpu_share=share,
            disturbed=share is not None and share > self.settings.foreign_cpu_limit,
        )
        self.kept.keep(work, [asdict(one) for one in timed], complete=share is not None)

    def launch(self, jobs: Sequence[Job]) -> None:
        """Run one launch; keep it whether it ends well or not."""
        attempt = self.kept.next_attempt()
        share: float | None = None
        with self.kept.at_work(f"launch-0.{attempt}", found_again=True) as work:
            try:
                share = self._time(attempt, jobs, work)
            finally:
                self._keep(work, share)

    def _time(self, launch: int, jobs: Sequence[Job], work: Path) -> float:
        """Run one launch in a folder; return the share of the CPU taken by others."""
        plan = LaunchPlan.of(jobs, self.settings, ranks=self.deployment.ranks, launch=launch)
        plan.write(work, jobs)
        watch = _reporter(plan, work, self.progress).watch
        return self.backend.time_launch(self.deployment, work, plan, watch)


def _wrong(check: ValueCheck, trial: Trial, observed: Observed) -> Failed | None:
    if observed.error:
        return Failed(status=JobStatus.RAISED, message=observed.error)
    wrong = observed.overwritten or check.wrong(trial, observed)
    return Failed(status=JobStatus.WRONG, message=wrong) if wrong else None


def _reporter(plan: LaunchPlan, work: Path, progress: Progress) -> Reporter:
    def rounds() -> int | None:
        calibration = Calibration.read(work)
        return max(calibration.rounds) if calibration else None

    head = f"launch {plan.launch + 1}, {len(plan.jobs)} Programs on {plan.ranks} ranks"
    return Reporter(head, rounds, progress)


def _say_floor(kept: Sequence[TimedProgram], settings: TimingSettings, progress: Progress) -> None:
    planned = max(timed.planned_rounds for timed in kept)
    if planned < settings.minimum_rounds:
        progress(
            f"only {planned} rounds fit into {settings.seconds:.0f} s, below the floor of "
            f"{settings.minimum_rounds}: give more seconds before you rely on these figures"
        )
