"""time_scopes: the Programs of all trained arms alone and beside a running matmul, in one launch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.scopes import programs_of_steps
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.scopes import SCOPES, TimedScope
from overlayccl_core.tables.steps import STAMPS
from overlayccl_core.timing.batch import TimingBatch, time_programs
from overlayccl_core.timing.partial import forget

BATCH_NAME = "time_scopes"


def main(job: RuleJob) -> None:
    """Write the table scopes."""
    rows = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        job.read_all(STAMPS),
        job.read_all(FINALISTS),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({SCOPES: rows})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    stamps: pl.DataFrame,
    finalists: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of `scopes`. ValueError where ranks do not compute on cores of their host."""
    backend = backend_of(deployment)
    if not backend.needs_cores(deployment):
        raise ValueError(
            f"scopes: {deployment.library} ranks compute on devices; take a deployment of CPU ranks"
        )
    if stamps.is_empty():
        raise ValueError(
            f"scopes: no model is trained on {deployment.name}: name some, --config models=NAME,..."
        )
    jobs, heads = [], {}
    for row in programs_of_steps(stamps, finalists).iter_rows(named=True):
        program = loads(row["program_json"])
        source = backend.emit(program)
        for scope in TimedScope:
            key = f"{row['case']} {row['direction']} {program.digest[:8]} {scope}"
            jobs.append(Job(key=key, program=program, source=source, beside=scope is TimedScope.BESIDE))
            place = {name: row[name] for name in ("case", "direction", "candidate")}
            heads[key] = {"problem": problem_of(row["case"]), **place, "scope": scope}, program
    batch = TimingBatch(
        jobs=jobs,
        deployment=deployment,
        settings=TimingSettings.of(settings.scopes),
        partial_dir=partial_dir,
        batch_name=BATCH_NAME,
        code=code,
    )
    timed = [(one, *heads[one.key]) for one in time_programs(batch, progress)]
    return [{**head, **one.columns(program)} for one, head, program in timed]
