"""Rule bench: time the shortlist of one Problem, all Cases and both directions, in one launch.

What fails on the ranks (wrong values, a crash, a hang, an error) is a row that says so; the others are timed
without it. What the developer writes must work: else there is nothing to compare with, and nothing to fall back to.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings, failed_columns
from overlayccl_core.backends.timing import Batch, ValueCheck, time_candidates
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.gates.on_ranks import Meaning, Values, inputs_of, meaning, wrong_values
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Problem
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
    batch = Batch(
        jobs=list(jobs.values()),
        deployment=deployment,
        settings=timing,
        partial_dir=Path(partial_dir),
        rule=partial_rule(rows[0]["case"].partition("/")[0]),
        code=code,
    )
    timed, failed = time_candidates(batch, _Values(rows, jobs).check(), progress)
    key_of = {job.key: dict(zip(KEY, key, strict=True)) for key, job in jobs.items()}
    program_of = {job.key: job.program for job in jobs.values()}
    timed_rows = [
        {
            **key_of[one.key],
            **one.columns(program_of[one.key]),
            "status": JobStatus.TIMED,
            "message": failed.unchecked.get(one.key, ""),
        }
        for one in timed
    ]
    fingerprint = backend.fingerprint(deployment)
    failed_rows = [
        {
            **key_of[key],
            **failed_columns(program_of[key], fingerprint),
            "status": one.status,
            "message": one.message,
        }
        for key, one in failed.items()
    ]
    return {"bench": [*timed_rows, *failed_rows]}


def partial_rule(problem: str) -> str:
    """What the folders of a Problem's batches begin with: they go when its table is written, not others'."""
    return f"bench-{problem}"


def jobs_of(rows: Iterable[Row], emit: Callable[[Program], str]) -> dict[tuple[str, ...], Job]:
    """(case, direction, candidate) -> its Job. A Case and direction holds every Program once."""
    jobs: dict[tuple[str, ...], Job] = {}
    for row in rows:
        program = loads(row["program_json"])
        key = _key(row)
        jobs[key] = Job(key=" ".join(key), program=program, source=emit(program))
    return jobs


class _Place:
    """A Case and direction: inputs of all its candidates, and what the developer's Program means at them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.developer: Program | None = None

    @cached_property
    def inputs(self) -> Values:
        """port -> [ranks of the deployment, elements]."""
        return inputs_of(self.problem, SEED)

    @cached_property
    def right(self) -> Meaning | None:
        """All candidates are proven to mean the same; None where that does not fit."""
        try:
            return meaning(self.developer, self.inputs) if self.developer else None
        except TooLarge:
            return None


class _Values:
    """Trials of the candidates of a shortlist."""

    def __init__(self, rows: Iterable[Row], jobs: Mapping[tuple[str, ...], Job]) -> None:
        self.numerics: dict[str, NumericsClass] = {}
        self.place: dict[str, _Place] = {}
        self.needed: set[str] = set()
        places: dict[tuple[str, ...], _Place] = {}
        for row in rows:
            key = _key(row)
            job = jobs[key]
            place = places.setdefault(key[:2], _Place(job.program.problem))
            self.place[job.key] = place
            self.numerics[job.key] = NumericsClass(row["numerics"])
            if ArmName.DEVELOPER in row["why"]:
                self.needed.add(job.key)
                place.developer = job.program

    def check(self) -> ValueCheck:
        """What the jobs must pass before they are timed."""
        return ValueCheck(trial=self.trial, wrong=self.wrong, needed=frozenset(self.needed))

    def trial(self, job: Job) -> Trial:
        return Trial(job=job, inputs=self.place[job.key].inputs)

    def wrong(self, trial: Trial, seen: Observed) -> str:
        job = trial.job
        right = self.place[job.key].right
        return wrong_values(job.program, self.numerics[job.key], trial.inputs, seen.outputs, right)


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)
