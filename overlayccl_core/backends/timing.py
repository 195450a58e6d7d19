"""Time a batch of Programs on a deployment's ranks: one launch, rounds in random order, raw samples kept.

Why so (the noise of repeated batches was measured): start-up is dear, so a launch times a whole batch; a
call alone after a pause costs a fraction of one in a busy stream, and a training step is a busy stream, so a
sample is several back-to-back calls; what disturbs a machine comes in bursts, so every round visits every
Program once, in an order of its own. Estimates are the readers' business (`overlayccl_core.measuring.statistics`).
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from overlayccl_core import loader
from overlayccl_core.backends.machine_lock import machine_lock
from overlayccl_core.backends.measured import Job, TimedProgram, TimingSettings
from overlayccl_core.backends.partial import KEY_DIGITS, LaunchStore, missing
from overlayccl_core.backends.plan import Calibration, LaunchPlan, planned_job
from overlayccl_core.backends.status import Phase, Status
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.measuring.progress import Step, tell
from overlayccl_core.program.program import Program

__all__ = ["Backend", "Job", "Progress", "TimedProgram", "TimingSettings", "backend_of", "time_programs"]

Progress = Callable[[str], None]
Rows = list[dict[str, Any]]
REPORT_S = 2.0


class Backend(Protocol):
    """What `backends/<name>/backend.py` defines."""

    def emit(self, program: Program) -> str:
        """The source of the module that is timed and deployed."""

    def fingerprint(self, deployment: Deployment) -> str:
        """Host, libraries and ranks, in one readable line."""

    def time_launch(
        self, folder: Path, plan: LaunchPlan, watch: Callable[[NDArray[np.int64]], None]
    ) -> float:
        """Run the plan of a folder on the ranks; returns the share of the CPU that others took."""

    def selftest(self, deployment: Deployment, folder: Path, progress: Progress) -> tuple[Rows, Rows]:
        """Rows of the tables selftest and capabilities."""

    def doctor(self, deployment: Deployment) -> Rows:
        """What there is and what is missing: rows of check, ok, detail."""


def backend_of(deployment: Deployment) -> Backend:
    """The deployment's backend; ValueError naming those there are."""
    return cast(Backend, loader.load("backends", deployment.backend))


def time_programs(
    jobs: Sequence[Job],
    deployment: Deployment,
    settings: TimingSettings,
    partial_dir: Path,
    rule: str,
    code: str,
    progress: Progress,
) -> list[TimedProgram]:
    """Samples of every job, one entry per (launch, Program).

    Launches are kept in partial_dir/<rule>-<key>/ as they come; the key is a digest of Programs, sources,
    settings, fingerprint and `code` (the digest of the rule's code). What is there under the same key is not
    timed again, until `partial.forget` is told that the rule's table is written. One batch at a time runs on
    a machine: others wait. LaunchError (a ValueError) names rank and Program if ranks die or hang.
    """
    _check(jobs, deployment)
    backend = backend_of(deployment)
    fingerprint = backend.fingerprint(deployment)
    cores = len(os.sched_getaffinity(0))
    store = LaunchStore(
        Path(partial_dir) / f"{rule}-{batch_key(jobs, settings, fingerprint, code)}",
        fingerprint=fingerprint,
        oversubscribed=deployment.ranks > cores,
    )
    with machine_lock(progress):
        store.recover()
        _Batch(jobs, deployment, settings, backend, store, progress).finish()
    kept = _chosen(store.launches())
    _say_floor(kept, settings, progress)
    return kept


def batch_key(jobs: Sequence[Job], settings: TimingSettings, fingerprint: str, code: str) -> str:
    """Digest of everything that decides what samples mean."""
    h = hashlib.blake2b(digest_size=KEY_DIGITS // 2)
    programs = [(job.key, job.program.digest, job.source, job.rounds) for job in jobs]
    for part in (programs, sorted(settings.to_json().items()), fingerprint, code):
        h.update(json.dumps(part).encode())
    return h.hexdigest()


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
    ) -> None:
        self.jobs = jobs
        self.deployment = deployment
        self.settings = settings
        self.backend = backend
        self.store = store
        self.progress = progress

    def finish(self) -> None:
        """Launch what is missing; a launch in which others took too much CPU is repeated once."""
        kept = self.store.launches()
        left = missing(self.jobs, kept)
        if kept and not left:
            self.progress(f"using the samples of a run that was cut off after them: {len(kept)} launches")
        if left:
            if kept:
                self.progress(f"continuing a batch that was cut off: {len(left)} Programs lack rounds")
            self.launch([replace(job, rounds=left[job.key]) for job in self.jobs if job.key in left])
        launches = self.store.launches()
        first = launches[0][0]
        if len(launches) == 1 and first.disturbed and self.settings.repeat_disturbed:
            self.progress(f"others took {first.foreign_cpu_share:.0%} of the CPU: timing the batch once more")
            self.launch(self.jobs)

    def launch(self, jobs: Sequence[Job]) -> None:
        """One launch, kept whether it ends well or not."""
        launch = self.store.next_launch()
        work = self.store.work_folder(launch)
        work.mkdir()
        plan = LaunchPlan(
            launch=launch,
            ranks=self.deployment.ranks,
            library=self.deployment.library,
            started_ns=time.monotonic_ns(),
            settings=self.settings,
            jobs=tuple(planned_job(index, job) for index, job in enumerate(jobs)),
        )
        share: float | None = None
        try:
            plan.write(work, jobs)
            share = self.backend.time_launch(work, plan, _Reporter(plan, work, self.progress).watch)
        finally:
            complete = share is not None
            disturbed = share is not None and share > self.settings.foreign_cpu_limit
            self.store.harvest(work, foreign_cpu_share=share, complete=complete, disturbed=disturbed)


class _Reporter:
    """Says how far a launch is, every other second."""

    def __init__(self, plan: LaunchPlan, work: Path, progress: Progress) -> None:
        self.plan = plan
        self.work = work
        self.progress = progress
        self._said_at = 0.0
        self._said = ""
        self._first: tuple[float, int] | None = None  # when rounds were first seen, and how many

    def watch(self, rows: NDArray[np.int64]) -> None:
        """Look at the status rows of the ranks."""
        now = time.monotonic()
        if now - self._said_at < REPORT_S:
            return
        self._said_at = now
        phase = Phase(int(rows[:, Status.PHASE].min()))
        head = f"launch {self.plan.launch + 1}, {len(self.plan.jobs)} Programs on {self.plan.ranks} ranks"
        calibration = Calibration.read(self.work) if phase is Phase.TIMING else None
        if calibration is not None:
            total = self.plan.settings.cold_rounds + calibration.rounds
            self._tell_rounds(head, int(rows[:, Status.ROUND].min()), total)
        elif (text := f"{head}: {phase.words}") != self._said:
            self._said = text
            self.progress(text)

    def _tell_rounds(self, head: str, done: int, total: int) -> None:
        """With the time that is left, as rounds go."""
        now = time.monotonic()
        self._first = self._first or (now, done)
        began, first = self._first
        left = (now - began) / (done - first) * (total - done) if done > first else None
        tell(self.progress, Step(phase=head, unit="round", done=done, total=total, left_s=left))


def _chosen(launches: Sequence[Sequence[TimedProgram]]) -> list[TimedProgram]:
    """All that is kept; of launches that were repeated because others disturbed them, the least disturbed."""
    complete = [launch for launch in launches if launch[0].complete]
    if len(complete) <= 1:
        return [timed for launch in launches for timed in launch]
    shares = [_foreign_share(launch) for launch in complete]
    return list(complete[shares.index(min(shares))])


def _foreign_share(launch: Sequence[TimedProgram]) -> float:
    share = launch[0].foreign_cpu_share
    return math.inf if share is None else share


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
