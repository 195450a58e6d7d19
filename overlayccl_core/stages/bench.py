"""Rule bench: time the shortlist of one Problem, all Cases and both directions, in one launch.

What fails on the ranks (wrong values, a crash, a hang, an error) is a row that says so; the others are timed
without it. What the developer writes must work: else there is nothing to compare with, and nothing to fall back to.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.failed import Failed
from overlayccl_core.backends.measured import Job, TimingSettings, failed_columns
from overlayccl_core.backends.timing import ValueCheck, time_candidates
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.gates.on_ranks import inputs_of, wrong_values
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program

Row = Mapping[str, Any]
KEY = ("case", "direction", "candidate")
SEED = 0  # of the inputs with which values are looked at


def run(
    deployment: Deployment,
    settings: Settings,
    shortlist: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[dict[str, Any]]]:
    """The rows of `bench`: one per launch and candidate, and one for each candidate that failed.

    `code`: digest of the rule's code; launches of another are not reused.
    """
    rows = list(shortlist.iter_rows(named=True))
    backend = backend_of(deployment)
    jobs = jobs_of(rows, backend.emit)
    timing = TimingSettings(
        seconds=settings.bench.seconds,
        minimum_rounds=settings.bench.minimum_rounds,
        maximum_rounds=settings.bench.maximum_rounds,
    )
    rule = partial_rule(rows[0]["case"].partition("/")[0])
    check = _Values(rows, jobs, progress).check()
    timed, failed = time_candidates(
        list(jobs.values()), deployment, timing, Path(partial_dir), rule, code, progress, check=check
    )
    key_of = {job.key: dict(zip(KEY, key, strict=True)) for key, job in jobs.items()}
    program_of = {job.key: job.program for job in jobs.values()}
    good = {"status": JobStatus.TIMED, "message": ""}
    found = [{**key_of[one.key], **one.columns(program_of[one.key]), **good} for one in timed]
    fingerprint = backend.fingerprint(deployment)
    for key, one in failed.items():
        columns = failed_columns(program_of[key], fingerprint)
        found.append({**key_of[key], **columns, **_failed(one)})
    return {"bench": found}


def partial_rule(problem: str) -> str:
    """What the folders of a Problem's batches begin with: they go when its table is written, not others'."""
    return f"bench-{problem}"


def jobs_of(rows: Iterable[Row], emit: Callable[[Program], str]) -> dict[tuple[str, ...], Job]:
    """(case, direction, candidate) -> its Job. A Case and direction holds every Program once."""
    found: dict[tuple[str, ...], Job] = {}
    for row in rows:
        program = loads(row["program_json"])
        key = _key(row)
        found[key] = Job(key=" ".join(key), program=program, source=emit(program))
    return found


class _Values:
    """Trials of the candidates of a shortlist: those of a Case and direction have the same inputs."""

    def __init__(
        self, rows: Iterable[Row], jobs: Mapping[tuple[str, ...], Job], progress: Callable[[str], None]
    ) -> None:
        self.numerics: dict[str, NumericsClass] = {}
        self.inputs: dict[str, Mapping[Any, Any]] = {}
        self.needed: set[str] = set()
        self.progress = progress
        drawn: dict[tuple[str, ...], Mapping[Any, Any]] = {}
        for row in rows:
            key = _key(row)
            job = jobs[key]
            if key[:2] not in drawn:
                drawn[key[:2]] = inputs_of(job.program.problem, SEED)
            self.inputs[job.key] = drawn[key[:2]]
            self.numerics[job.key] = NumericsClass(row["numerics"])
            if ArmName.DEVELOPER in row["why"]:
                self.needed.add(job.key)

    def check(self) -> ValueCheck:
        """What the jobs must pass before they are timed."""
        return ValueCheck(trial=self.trial, wrong=self.wrong, needed=frozenset(self.needed))

    def trial(self, job: Job) -> Trial:
        return Trial(job=job, inputs=self.inputs[job.key])

    def wrong(self, trial: Trial, seen: Observed) -> str:
        job = trial.job
        try:
            return wrong_values(job.program, self.numerics[job.key], trial.inputs, seen.outputs)
        except TooLarge as error:
            self.progress(f"{job.key}: its values were not looked at: {error}")
            return ""


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)


def _failed(one: Failed) -> dict[str, str]:
    return {"status": one.status, "message": one.message}
