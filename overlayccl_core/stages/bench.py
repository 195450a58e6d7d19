"""Rule bench: time the shortlist of one Problem, all Cases and both directions, in one launch.

The candidates of a Case and direction race for the fastest, known ways also among themselves (`backends.race`). A
candidate may fail on the ranks (wrong values, a crash, a hang, an error): its row says so, and the others are timed
without it. The developer's must work: else there is nothing to compare with, and nothing to fall back to.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings, failed_columns
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.values import ProvenJob, value_check
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidate_columns import is_found
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.timing.batch import TimingBatch, time_candidates
from overlayccl_core.timing.partial import forget

Row = Mapping[str, Any]
KEY = ("case", "direction", "candidate")


def main(job: RuleJob) -> None:
    """Write the table bench of one Problem."""
    rows = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        job.read(SHORTLIST),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({BENCH: rows})
    forget(job.partial, batch_name(job.problem), job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    shortlist: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of `bench`: one per launch and candidate, and one for each candidate that failed.

    `code`: digest of the rule's code; launches of other code are not reused.
    """
    rows = list(shortlist.iter_rows(named=True))
    backend = backend_of(deployment)
    jobs = jobs_of(rows, backend.emit)
    batch = TimingBatch(
        jobs=list(jobs.values()),
        deployment=deployment,
        settings=TimingSettings.of(settings.bench),
        partial_dir=Path(partial_dir),
        batch_name=batch_name(problem_of(rows[0]["case"])),
        code=code,
    )
    proven = [
        ProvenJob(
            job=jobs[_key(row)],
            numerics=NumericsClass(row["numerics"]),
            reference=ArmName.DEVELOPER in row["why"],
        )
        for row in rows
    ]
    timed, failed = time_candidates(batch, value_check(proven), progress)
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
    return [*timed_rows, *failed_rows]


def batch_name(problem: str) -> str:
    """Return the prefix of a Problem's batch folders; writing its table removes them, and no others."""
    return f"bench-{problem}"


def jobs_of(rows: Iterable[Row], emit: Callable[[Program], str]) -> dict[tuple[str, ...], Job]:
    """Return (case, direction, candidate) -> its Job. A Case and direction holds every Program once."""
    jobs: dict[tuple[str, ...], Job] = {}
    for row in rows:
        program = loads(row["program_json"])
        key = _key(row)
        jobs[key] = Job(key=" ".join(key), program=program, source=emit(program), races=_races(row))
    return jobs


def _races(row: Row) -> tuple[str, ...]:
    """Name the races of a candidate; a lossy one is no rival of one without loss."""
    place = f"{row['case']} {row['direction']}"
    if row["numerics"] == NumericsClass.LOSSY:
        return (f"{place} lossy",)
    return (place,) if is_found(row["candidate"]) else (place, f"{place} known ways")


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)
