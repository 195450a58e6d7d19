"""Time a batch of Programs on a deployment's ranks: one launch, rounds in random order, raw samples kept.

Why so (the noise of repeated batches was measured): start-up is dear, so a launch times a whole batch; a
call alone after a pause costs a fraction of one in a busy stream, and a training step is a busy stream, so a
sample is several back-to-back calls; what disturbs a machine comes in bursts, so every round visits every
Program once, in an order of its own. Estimates are the readers' business (`overlayccl_core.measuring.statistics`).
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimedProgram, TimingSettings
from overlayccl_core.backends.plan import Calibration, LaunchPlan, planned_job
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.machine_lock import machine_lock
from overlayccl_core.launching.node_report import LaunchClock, doubts
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.timing.failed import Failed, FailedJobs, without_failed
from overlayccl_core.timing.kept import KeptLaunches
from overlayccl_core.timing.launches import missing, programs_of, timed_programs
from overlayccl_core.timing.partial import Evidence, at_work, key
from overlayccl_core.timing.reporting import Progress, Reporter

TRIAL_TIMEOUT_S = 30.0  # of one Program that runs once


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is timed on which ranks, and where its launches are kept as they come: <partial_dir>/<rule>-<key>/.

    code: digest of the rule's code. logs: where ranks that fail leave what they said (None: the folder of that name
    beside partial_dir).
    """

    jobs: Sequence[Job]
    deployment: Deployment
    settings: TimingSettings
    partial_dir: Path
    rule: str
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
        """Its name ends in a digest of everything that decides what samples mean."""
        programs = [
            (job.key, job.program.digest, job.source, job.deployed, job.rounds, job.races)
            for job in self.jobs
        ]
        digest = key(programs, self.settings.to_json(), fingerprint, self.code)
        return Path(self.partial_dir) / f"{self.rule}-{digest}"

    def evidence(self) -> Evidence:
        """Where ranks that fail leave what they said."""
        if self.logs:
            return Evidence(logs=self.logs, name=self.rule)
        return Evidence.beside(self.partial_dir, self.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCheck:
    """What every job must pass before it is timed.

    trial: the job with given inputs. wrong: what is wrong with what came out, in a clause; empty: nothing; TooLarge
    where that cannot be said. needed: jobs without which the others mean nothing: where one fails, the batch does.
    """

    trial: Callable[[Job], Trial]
    wrong: Callable[[Trial, Observed], str]
    needed: frozenset[str] = frozenset()


def time_programs(batch: Batch, progress: Progress) -> list[TimedProgram]:
    """Samples of every job, one entry per (launch, Program).

    What is there under the batch's key is not timed again, until `partial.forget` is told that the rule's table is
    written. One batch at a time runs on a machine: others wait. LaunchError (a ValueError) names rank, Program and
    the file of its traceback if ranks die or hang.
    """
    timer = _Timer(batch, progress)
    with machine_lock(progress):
        return timer.finish()


def time_candidates(
    batch: Batch, check: ValueCheck, progress: Progress
) -> tuple[list[TimedProgram], FailedJobs]:
    """The same for jobs of which some may be broken: (samples, how jobs failed), every job in one of them.

    Each runs once and its values are looked at, before any is timed. One that gives wrong ones is left out, and so
    is one that crashes its ranks, hangs or raises, alone too; the others are tried or timed in a new launch.
    LaunchError where ranks fail at no job, or at one that is needed; ValueError where the values of such a job are
    wrong.
    """
    timer = _Timer(batch, progress)
    with machine_lock(progress):
        return timer.finish_without_failed(check)


def check_values(batch: Batch, check: ValueCheck, progress: Progress) -> FailedJobs:
    """How jobs fail that run once, and are not timed. What is raised: as `time_candidates` has it."""
    timer = _Timer(batch, progress)
    with machine_lock(progress):
        return timer.tried(check)


class _Timer:
    """One batch on its way: launches until nothing is missing."""

    def __init__(self, batch: Batch, progress: Progress) -> None:
        self.jobs = list(batch.jobs)
        self.deployment = batch.deployment
        self.settings = batch.settings
        self.progress = progress
        self.backend = backend_of(batch.deployment)
        self.fingerprint = self.backend.fingerprint(batch.deployment)
        self.kept = KeptLaunches(batch.folder(self.fingerprint))
        self.evidence = batch.evidence()
        if not any(self.kept.folder.iterdir()):
            self.evidence.clear()

    def finish(self) -> list[TimedProgram]:
        """Launch what is missing; a launch in which others took too much CPU is repeated once."""
        self._recover()
        kept = self.kept.attempts()
        lacking = bool(missing(self.jobs, kept))
        if not lacking:
            self.progress(f"using the samples of a run that was cut off after them: {len(kept)} launches")
        self.kept.launch_quietly(
            0,
            self._launch_missing,
            lacking=lacking,
            repeat=self.settings.repeat_disturbed,
            progress=self.progress,
        )
        left = {job.key for job in self.jobs}  # a launch that ended well may hold one that failed since
        timed = [one for one in self._chosen() if one.key in left]
        _say_floor(timed, self.settings, self.progress)
        for said in doubts([_told(one) for one in timed]):
            self.progress(said)
        return timed

    def tried(self, check: ValueCheck) -> FailedJobs:
        """Jobs that fail when each runs once."""
        jobs = {job.key: job for job in self.jobs}
        failed = FailedJobs(self.kept.folder, self.progress, needed=check.needed)

        def together() -> None:
            self._try([job for name, job in jobs.items() if name not in failed], check, failed)

        if not failed.tried:
            without_failed(together, lambda name: self._try([jobs[name]], check, failed), failed)
            failed.all_tried()
        return failed

    def finish_without_failed(self, check: ValueCheck) -> tuple[list[TimedProgram], FailedJobs]:
        """`finish` with those jobs only that do not fail, neither when tried nor when timed."""
        jobs, failed = {job.key: job for job in self.jobs}, self.tried(check)

        def together() -> list[TimedProgram]:
            self.jobs = [job for name, job in jobs.items() if name not in failed]
            return self.finish() if self.jobs else []

        def alone(name: str) -> None:
            with at_work(self.kept.folder / "alone", self.evidence) as work:
                self._time(0, [jobs[name]], work)

        return without_failed(together, alone, failed, before_again=self.kept.discard_cut_off), failed

    def _try(self, jobs: Sequence[Job], check: ValueCheck, failed: FailedJobs) -> None:
        """Run jobs once and look at what they give."""
        self.progress(f"running {len(jobs)} Programs once: are their values right?")
        trials = [check.trial(job) for job in jobs]
        with at_work(self.kept.folder / "trial", self.evidence) as work:
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
        """All that is kept; of attempts that ended by themselves the least disturbed."""
        attempts = self.kept.attempts()
        if sum(one.complete for one in attempts) > 1:
            attempts = [self.kept.least_disturbed()]
        return [timed for one in attempts for timed in programs_of(one)]

    def _recover(self) -> None:
        """Keep what launches that a dead run left had finished; their folders go."""
        for work, kept in self.kept.left_at_work():
            if not kept:  # else how disturbed it was is known
                self._keep(work, None)
            shutil.rmtree(work)

    def _keep(self, work: Path, share: float | None) -> None:
        """Keep what a launch in a folder gave; share: of the CPU that others took, None where it was cut off."""
        timed = timed_programs(
            work,
            fingerprint=self.fingerprint,
            oversubscribed=self.backend.oversubscribed(self.deployment),
            foreign_cpu_share=share,
            disturbed=share is not None and share > self.settings.foreign_cpu_limit,
        )
        self.kept.keep(work, [asdict(one) for one in timed], complete=share is not None)

    def _launch_missing(self) -> None:
        """One launch of what no launch has, or of all once more."""
        kept = self.kept.attempts()
        left = missing(self.jobs, kept)
        if kept and left:
            self.progress(f"continuing a batch that was cut off: {len(left)} Programs lack rounds")
        jobs = [replace(job, rounds=left[job.key]) for job in self.jobs if job.key in left]
        self.launch(jobs if left else self.jobs)

    def launch(self, jobs: Sequence[Job]) -> None:
        """One launch, kept whether it ends well or not."""
        attempt = self.kept.next_attempt()
        share: float | None = None
        with at_work(self.kept.work(0, attempt), self.evidence, found_again=True) as work:
            try:
                share = self._time(attempt, jobs, work)
            finally:
                self._keep(work, share)

    def _time(self, launch: int, jobs: Sequence[Job], work: Path) -> float:
        """One launch in a folder; the share of the CPU that others took."""
        plan = LaunchPlan(
            launch=launch,
            ranks=self.deployment.ranks,
            started_ns=time.monotonic_ns(),
            settings=self.settings,
            jobs=tuple(planned_job(index, job) for index, job in enumerate(jobs)),
        )
        plan.write(work, jobs)
        watch = _reporter(plan, work, self.progress).watch
        return self.backend.time_launch(self.deployment, work, plan, watch)


def _wrong(check: ValueCheck, trial: Trial, observed: Observed) -> Failed | None:
    """What is wrong with a job that ran to its end."""
    if observed.error:
        return Failed(status=JobStatus.RAISED, message=observed.error)
    wrong = observed.overwritten or check.wrong(trial, observed)
    return Failed(status=JobStatus.WRONG, message=wrong) if wrong else None


def _reporter(plan: LaunchPlan, work: Path, progress: Progress) -> Reporter:
    def rounds() -> int | None:
        calibration = Calibration.read(work)
        return plan.settings.cold_rounds + max(calibration.rounds) if calibration else None

    head = f"launch {plan.launch + 1}, {len(plan.jobs)} Programs on {plan.ranks} ranks"
    return Reporter(head, rounds, progress)


def _told(timed: TimedProgram) -> LaunchClock:
    return LaunchClock(
        nodes=timed.nodes,
        clock_off_by_us=timed.clock_off_by_us,
        shortest_us=min(timed.samples_us) * timed.repeats,
    )


def _say_floor(kept: Sequence[TimedProgram], settings: TimingSettings, progress: Progress) -> None:
    planned = max(timed.planned_rounds for timed in kept)
    if planned < settings.minimum_rounds:
        progress(
            f"only {planned} rounds fit into {settings.seconds:.0f} s, below the floor of "
            f"{settings.minimum_rounds}: give more seconds before you rely on these figures"
        )
